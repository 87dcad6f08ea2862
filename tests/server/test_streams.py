"""`GET /stream`: nothing is missed, clients are never waited for, and a stream ends when it has to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from podium.access.grants import Grant
from podium.access.roles import Role
from podium.access.stored_tokens import token_id_of
from podium.errors import StoreUnavailable
from podium.log.ids import RunId
from podium.operations.sessions import end_session, log_in_with_token
from podium.operations.tokens import remove_token
from podium.server.serving import authenticated_app, stream_service
from podium.testing.events import event, new_run
from tests.server.listening_client import Listening
from tests.server.site import Site


class World:
    """Streams on a site, and the runs that they watch."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.streams = stream_service(site.parts)
        self.app: Any = authenticated_app(site.parts, self.streams)
        self.token = site.tokens["acme", "viewer"]
        self.opened: list[Listening] = []

    async def listen(
        self, path: str, *, token: str | None = None, last_id: str | None = None, cookie: str | None = None
    ) -> Listening:
        listening = Listening(self.app, path, token or self.token, last_id, cookie)
        self.opened.append(listening)
        await listening.until(lambda: listening.frames or listening.is_complete)
        return listening

    async def create(self, run_id: str, *, tenant: str = "acme", **fields: Any) -> None:
        new = new_run(run_id, run={"tenant_id": tenant}, **fields)
        await self.site.store.create_run(new, [event(run_id, "RunQueued")])

    async def note(self, run_id: str, *names: str, size: int = 0) -> None:
        """Events that need no lease."""
        writes = [event(run_id, "AlertRaised", subject=name, text="x" * size) for name in names]
        await self.site.store.append(RunId(run_id), writes)

    def write(self, run_id: str, file: str, content: bytes) -> None:
        """Of a step that runs on this host."""
        folder = self.site.folder / "runs" / run_id / "logs/steps"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / file).open("ab") as opened:
            opened.write(content)

    def logged(self, stream: Listening, name: str) -> str:
        frames = [frame.data.get("logs", {}) for frame in stream.frames if frame.data is not None]
        return "".join(logs[name]["text"] for logs in frames if name in logs)


@pytest.fixture
def play(site: Site) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        async def whole() -> None:
            world = World(site)
            try:
                await scenario(world)
            finally:
                await world.streams.close()
                for listening in world.opened:
                    listening.read_again()
                await asyncio.wait_for(asyncio.gather(*(one.task for one in world.opened)), 60)

        site.run(whole())

    return run


Play = Callable[[Callable[[World], Awaitable[None]]], None]


def test_one_connection_carries_the_list_and_the_events_of_several_runs(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("one-a", labels={"team": "web"})
        await world.create("one-b")
        stream = await world.listen("/stream?runs=label.team%3Dweb&run=one-a@0&run=one-b@1")
        await world.note("one-a", "x", "y")
        await world.note("one-b", "x")
        await world.create("one-c", labels={"team": "web"})
        await world.create("one-d")
        await world.create("one-e", labels={"team": "web"}, tenant="other")
        await stream.until(lambda: stream.events("one-a") == [1, 2, 3] and "one-c" in stream.runs())
        await stream.until(lambda: stream.events("one-b") == [2])
        assert stream.runs().keys() == {"one-a", "one-c"}

    play(scenario)


def test_a_client_that_comes_back_continues_exactly_where_it_was(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("back-a")
        path = "/stream?runs=text~back-&run=back-a@0"
        stream = await world.listen(path)
        await world.note("back-a", *"abc")
        await stream.until(lambda: stream.events("back-a") == [1, 2, 3, 4])
        await stream.leave()
        await world.note("back-a", *"defg")
        await world.create("back-b")
        again = await world.listen(path, last_id=stream.last_id)
        await world.note("back-a", "h")
        await again.until(lambda: again.events("back-a") == [5, 6, 7, 8, 9] and "back-b" in again.runs())

    play(scenario)


def test_a_client_that_was_cut_off_before_its_first_frame_misses_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        stream = await world.listen("/stream?runs=text~early-")
        await stream.leave()
        await world.create("early-a")
        again = await world.listen("/stream?runs=text~early-", last_id=stream.last_id)
        await again.until(lambda: again.runs().keys() == {"early-a"})

    play(scenario)


def test_many_changes_are_merged_into_few_frames(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("many-a")
        stream = await world.listen("/stream?runs=text~many-&run=many-a@0")
        began = asyncio.get_running_loop().time()
        for number in range(300):
            await world.note("many-a", str(number))
        await stream.until(lambda: stream.events("many-a")[-1:] == [301])
        seconds = asyncio.get_running_loop().time() - began
        assert stream.events("many-a") == list(range(1, 302))
        assert len([frame for frame in stream.frames if frame.data is not None]) <= 10 * seconds + 2

    play(scenario)


def test_a_long_log_comes_in_frames_of_bounded_size(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("long-a")
        for number in range(10):
            await world.note("long-a", str(number), size=60_000)
        stream = await world.listen("/stream?run=long-a@0")
        await stream.until(lambda: stream.events("long-a") == list(range(1, 12)))
        assert max(map(len, stream.chunks)) < 200_000

    play(scenario)


def test_a_client_that_leaves_256_kb_unread_is_told_to_read_everything_again(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("slow-a")
        stream, other = [await world.listen("/stream?run=slow-a@0") for _ in range(2)]
        stream.stop_reading()
        for number in range(8):
            await world.note("slow-a", str(number), size=60_000)
        await other.until(lambda: other.events("slow-a")[-1:] == [9])
        # It cannot be known when the server notices: it is given time before the client reads again.
        async with asyncio.timeout(60):
            while world.streams.count == 2:
                await asyncio.sleep(0.05)
        stream.read_again()
        last = await stream.ended()
        assert (last.event, last.data) == ("resync", {"code": "RESYNC"})
        assert stream.is_complete
        assert not other.is_complete

    play(scenario)


def test_a_shutdown_ends_every_stream(play: Play) -> None:
    async def scenario(world: World) -> None:
        streams = [await world.listen("/stream?runs=") for _ in range(3)]
        await world.streams.close()
        for stream in streams:
            last = await stream.ended()
            assert (last.event, last.data) == ("end", {"code": "SHUTDOWN"})
        late = await world.listen("/stream?runs=")
        assert (await late.ended()).data == {"code": "SHUTDOWN"}

    play(scenario)


class Outages:
    """A store that is away while it is said so, for the checks of streams."""

    def __init__(self, answers: Callable[[Grant], Awaitable[bool]]) -> None:
        self._answers = answers
        self.is_away = False
        self.checks = 0

    async def is_live(self, grant: Grant) -> bool:
        self.checks += 1
        if self.is_away:
            raise StoreUnavailable("the store does not answer")
        return await self._answers(grant)

    async def until_checked(self, times: int) -> None:
        last = self.checks + times
        async with asyncio.timeout(60):
            while self.checks < last:
                await asyncio.sleep(0.05)


def test_a_stream_says_once_that_the_store_is_away_and_stays_open(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = Outages(world.streams._is_live)
        world.streams._is_live = store.is_live
        stream = await world.listen("/stream?runs=text~away-")
        for time in (1, 2):
            store.is_away = True
            await store.until_checked(4)
            said = [frame.data for frame in stream.frames if frame.event == "unavailable"]
            assert said == [{"code": "STORE_UNAVAILABLE"}] * time
            store.is_away = False
            await store.until_checked(2)
        await world.create("away-a")
        await stream.until(lambda: "away-a" in stream.runs())
        assert not stream.is_complete

    play(scenario)


def test_the_removal_of_its_token_ends_a_stream_and_no_other(play: Play) -> None:
    async def scenario(world: World) -> None:
        token = await world.site._token("acme", Role.VIEWER)
        stream = await world.listen("/stream?runs=", token=token)
        other = await world.listen("/stream?runs=")
        token_id = token_id_of(token)
        assert token_id is not None
        await remove_token(world.site.parts, "acme", token_id)
        assert (await stream.ended()).data == {"code": "TOKEN_INVALID"}
        assert not other.is_complete

    play(scenario)


def test_logging_out_ends_the_streams_of_the_session_and_no_other(play: Play) -> None:
    async def scenario(world: World) -> None:
        token = await world.site._token("acme", Role.VIEWER)
        store, clock = world.site.store, world.site.parts.clock
        sessions = [await log_in_with_token(store, clock, None, token) for _ in range(2)]
        first, second = [
            await world.listen("/stream?runs=", cookie=f"podium={one.secret}") for one in sessions if one
        ]
        assert sessions[0] is not None
        await end_session(store, sessions[0].secret)
        assert (await first.ended()).data == {"code": "TOKEN_INVALID"}
        assert not second.is_complete

    play(scenario)


def test_the_removal_of_its_run_ends_a_stream(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("gone-a")
        lease = await world.site.store.claim(RunId("gone-a"), owner="o", ttl=None)
        assert lease is not None
        await world.site.store.append(RunId("gone-a"), [event("gone-a", "RunCancelled")], fence=lease.fence)
        stream = await world.listen("/stream?run=gone-a@0")
        await stream.until(lambda: stream.events("gone-a") == [1, 2])
        await world.site.store.prune(RunId("gone-a"))
        last = await stream.ended()
        assert (last.event, last.data) == ("end", {"code": "RUN_NOT_FOUND", "runId": "gone-a"})

    play(scenario)


def test_a_log_is_sent_while_it_is_written(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("log-a")
        world.write("log-a", "Build.1.out", b"one\n")
        path = "/stream?log=log-a/Build/1/out@0"
        stream = await world.listen(path)
        await stream.until(lambda: world.logged(stream, "log-a/Build/1/out") == "one\n")
        world.write("log-a", "Build.1.out", "zwei \u00e4".encode()[:-1])
        await stream.until(lambda: world.logged(stream, "log-a/Build/1/out") == "one\nzwei ")
        await stream.leave()
        world.write("log-a", "Build.1.out", "\u00e4".encode()[-1:] + b"\n")
        again = await world.listen(path, last_id=stream.last_id)
        await again.until(lambda: world.logged(again, "log-a/Build/1/out") == "\u00e4\n")

    play(scenario)


def test_a_log_that_is_not_there_yet_is_waited_for_and_one_of_now_starts_at_its_end(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("log-b")
        world.write("log-b", "Group~Old.1.err", b"before\n")
        stream = await world.listen("/stream?log=log-b/Later/2/out&log=log-b/Group/Old/1/err")
        world.write("log-b", "Later.2.out", b"x" * 100_000)
        world.write("log-b", "Group~Old.1.err", b"now\n")
        await stream.until(lambda: world.logged(stream, "log-b/Later/2/out") == "x" * 100_000)
        await stream.until(lambda: world.logged(stream, "log-b/Group/Old/1/err") == "now\n")

    play(scenario)


def test_a_log_that_is_written_from_its_start_is_sent_from_its_start(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("log-c")
        world.write("log-c", "Build.1.out", b"a long first try\n")
        stream = await world.listen("/stream?log=log-c/Build/1/out@0")
        await stream.until(lambda: world.logged(stream, "log-c/Build/1/out") != "")
        (world.site.folder / "runs/log-c/logs/steps/Build.1.out").write_bytes(b"again\n")
        await stream.until(lambda: world.logged(stream, "log-c/Build/1/out").endswith("again\n"))
        last = [frame.data["logs"] for frame in stream.frames if frame.data is not None][-1]
        assert last == {"log-c/Build/1/out": {"start": 0, "end": 6, "text": "again\n"}}

    play(scenario)


def test_the_removal_of_its_run_ends_the_stream_of_a_log(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("log-d")
        lease = await world.site.store.claim(RunId("log-d"), owner="o", ttl=None)
        assert lease is not None
        await world.site.store.append(RunId("log-d"), [event("log-d", "RunCancelled")], fence=lease.fence)
        stream = await world.listen("/stream?log=log-d/Build/1/out")
        await world.site.store.prune(RunId("log-d"))
        assert (await stream.ended()).data == {"code": "RUN_NOT_FOUND", "runId": "log-d"}

    play(scenario)


def test_nothing_is_left_of_clients_that_have_gone(play: Play) -> None:
    async def scenario(world: World) -> None:
        await world.create("left-a")
        path = "/stream?runs=&run=left-a@0&log=left-a/Build/1/out"
        streams = [await world.listen(path) for _ in range(5)]
        assert world.streams.count == 5
        for stream in streams:
            await stream.leave()
        assert world.streams.count == 0
        hub = world.streams.hub
        assert (hub._watchers, hub._listing, hub._by_run, hub._tails, hub._task) == (
            set(),
            set(),
            {},
            {},
            None,
        )
        logs = world.streams.logs
        assert (logs._watchers, logs._runs, logs._sizes, logs._pieces, logs._task) == ({}, {}, {}, {}, None)
        await world.note("left-a", "x")
        again = await world.listen("/stream?run=left-a@0")
        await again.until(lambda: again.events("left-a") == [1, 2])

    play(scenario)


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/stream", {}, 400, "INVALID_ID"),
        ("/stream?run=missing@0", {}, 404, "RUN_NOT_FOUND"),
        ("/stream?run=theirs@0", {}, 404, "RUN_NOT_FOUND"),
        ("/stream?run=a%20b", {}, 400, "INVALID_ID"),
        ("/stream?log=missing/Build/1/out", {}, 404, "RUN_NOT_FOUND"),
        ("/stream?log=theirs/Build/1/out@0", {}, 404, "RUN_NOT_FOUND"),
        ("/stream?log=theirs/Build/1/other", {}, 400, "INVALID_ID"),
        ("/stream?log=theirs/1/out", {}, 400, "INVALID_ID"),
        ("/stream?log=theirs", {}, 400, "INVALID_ID"),
        ("/stream?log=..%2Ftheirs/Build/1/out", {}, 400, "INVALID_ID"),
        ("/stream?log=theirs/a%00b/1/out", {}, 400, "INVALID_ID"),
        ("/stream?" + "&".join(f"log=r/S/{number}/out" for number in range(11)), {}, 400, "INVALID_ID"),
        ("/stream?runs=stat%3DX", {}, 400, "INVALID_FILTER"),
        ("/stream?runs=needs%3Dperson", {}, 400, "INVALID_FILTER"),
        ("/stream?runs=", {"last-event-id": "x"}, 400, "INVALID_ID"),
        ("/stream?runs=", {"last-event-id": "1.2"}, 400, "INVALID_ID"),
        ("/stream?" + "&".join(f"run=r{number}" for number in range(51)), {}, 400, "INVALID_ID"),
    ],
)
def test_a_wrong_question_is_answered_before_a_stream_starts(
    site: Site, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    async def create() -> None:
        await site.store.create_run(new_run("theirs", run={"tenant_id": "other"}), [])

    site.run(create())
    answer = site.get(path, role="viewer", headers=headers)
    assert (answer.status, answer.code) == (status, code)


def test_a_stream_needs_a_token(site: Site) -> None:
    assert site.get("/stream?runs=", role=None).status == 401
