"""100 KB of hostile text, in every field that a store accepts.

Either it is returned byte for byte, or it is refused with one of our errors and nothing has changed: which of
the two is defined here for each field, so that it is the same on every store. A query with such a name
returns nothing or is refused.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from podium.errors import InvalidEvent, InvalidId, PodiumError
from podium.log.engines import ConductorRunRef
from podium.log.events import encode_payload
from podium.log.ids import RunId
from podium.log.leases import Lease, WakeUp
from podium.log.payloads import Failure
from podium.log.runs import Backpressure, RunQuery
from podium.log.snapshots import AttemptSnapshot, RunSummary, StepSnapshot
from podium.log.transitions import StepStatus
from podium.ports.store import Limit, Store
from podium.testing.events import NOON, event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started

# Stores the text in a field and returns what is found there afterwards; or queries with this name.
_Keep = Callable[["_Place", str], Awaitable[object]]

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _text(hostile: Sequence[str], seed: int) -> str:
    """100 KB, every fourth character hostile; mixed, so that compression does not help a store."""
    chance = random.Random(seed)
    pieces = []
    size = 0
    while size < 100_000:
        pieces += [chance.choice(hostile), *chance.choices(_LETTERS, k=3)]
        size += 3 + len(pieces[-4].encode(errors="surrogatepass"))
    return "".join(pieces)


TEXTS: Final = {
    "control characters": _text([chr(code) for code in (*range(1, 32), *range(127, 160))], 1),
    "quotes and backslashes": _text(["'", '"', "`", "\\", ";", "--", "%s", "$1", "?", "{}", "|"], 2),
    "NUL": _text(["\0"], 3),
    "half characters": _text(["\ud800", "\udbff", "\udc00", "\udfff"], 4),
    "bidi marks": _text(["\u202e", "\u202d", "\u2066", "\u2069", "\u200f", "\u2028", "\ufeff"], 5),
    "letters": _text(["a"], 6),
}


class _Place(NamedTuple):
    """A store with a run that has started."""

    store: Store
    lease: Lease


def _new_run(field: str) -> _Keep:
    async def keep(at: _Place, text: str) -> object:
        in_identity = field in ("tenant_id", "project_id", "environment_id", "plan_id", "plan_version")
        fields: dict[str, Any] = {"run": {field: text}} if in_identity else {field: text}
        new = new_run("r2", **fields)
        run = (await at.store.create_run(new, [event("r2", "RunQueued")])).run
        return getattr(run.identity if in_identity else run, field)

    return keep


async def _run_id(at: _Place, text: str) -> object:
    return (await at.store.create_run(new_run(text), [])).run.identity.run_id


async def _start_at(at: _Place, text: str) -> object:
    await at.store.create_run(new_run("r2", backpressure=Backpressure.DELAY, start_at=text), [])
    return (await at.store.get_run(RunId("r2"))).start_at


def _write(field: str) -> _Keep:
    async def keep(at: _Place, text: str) -> object:
        write = replace(event("r1", "StepStarted", "a"), **{field: text})
        await at.store.append(R1, [write], fence=at.lease.fence)
        return getattr((await at.store.read(R1, after=2))[0], field)

    return keep


def _engine(field: str) -> _Keep:
    async def keep(at: _Place, text: str) -> object:
        ids = {"conductor_url": "http://c", "workflow_id": "w", "provider_run_id": "x", field: text}
        await at.store.set_engine(R1, ConductorRunRef(run_id=R1, **ids), fence=at.lease.fence)
        found = await at.store.run_of_engine("conductor", ids["workflow_id"], ids["provider_run_id"])
        return getattr(found.engine, field) if found is not None else None

    return keep


def _limit(field: str) -> _Keep:
    async def keep(at: _Place, text: str) -> object:
        fields: dict[str, Any] = {"tenant_id": "default", "scope": "plan", "name": "nightly", field: text}
        limit = Limit(**fields, most=3)
        await at.store.set_limit(limit)
        return getattr((await at.store.limits(limit.tenant_id))[0], field)

    return keep


async def _owner(at: _Place, text: str) -> object:
    taken = await at.store.claim(R1, owner=text, ttl=TTL, attempt="a|1")
    return taken.owner if taken is not None else None


async def _owner_of_pool_run(at: _Place, text: str) -> object:
    await at.store.create_run(new_run("r2", pool="p"), [])
    claimed = await at.store.claim_of_pool("p", owner=text, ttl=TTL)
    return claimed[0].lease.owner if claimed else None


async def _attempt(at: _Place, text: str) -> object:
    taken = await at.store.claim(R1, owner="worker", ttl=TTL, attempt=text)
    return taken.fence.attempt if taken is not None else None


def _wake_up(field: str) -> _Keep:
    async def keep(at: _Place, text: str) -> object:
        wake_up = replace(WakeUp(run_id=R1, key="k", due=NOON), **{field: text})
        await at.store.append(
            R1, [event("r1", "StepStarted", "a")], fence=at.lease.fence, set_wake_ups=[wake_up]
        )
        return getattr((await at.store.due("2999-01-01T00:00:00.000000Z"))[0], field)

    return keep


async def _bus(at: _Place, text: str) -> object:
    await at.store.add_bus(text)
    return (await at.store.outbox_lines(text))[0].bus


async def _owner_of_line(at: _Place, text: str) -> object:
    await at.store.add_bus("kafka", from_start=True)
    return text if await at.store.claim_line("kafka", owner=text, ttl=TTL) is not None else None


async def _step(at: _Place, text: str) -> object:
    step = StepSnapshot(text, AttemptSnapshot(1, StepStatus.SUCCESS))
    await at.store.save_snapshot(R1, RunSummary(last_event_seq=2), [step])
    return (await at.store.load_steps(R1))[0].step_id


# Names and ids: whatever they contain, they are invalid at this length.
NAMES: Final[dict[str, _Keep]] = {
    "run id": _run_id,
    **{
        f"{field} of a run": _new_run(field)
        for field in (
            "tenant_id",
            "project_id",
            "environment_id",
            "plan_id",
            "plan_version",
            "run_request_id",
            "concurrency_key",
            "plan_sha256",
            "inputs_sha256",
        )
    },
    "start_at of a run": _start_at,
    **{
        f"{field} of an event": _write(field)
        for field in ("event_id", "event_type", "step_id", "idempotency_key", "emitted_at")
    },
    **{
        f"{field} of an engine": _engine(field)
        for field in ("conductor_url", "workflow_id", "provider_run_id")
    },
    **{f"{field} of a limit": _limit(field) for field in ("tenant_id", "scope", "name")},
    "owner of a lease": _owner,
    "owner of a run of a pool": _owner_of_pool_run,
    "attempt of a lease": _attempt,
    "key of a wake-up": _wake_up("key"),
    "moment of a wake-up": _wake_up("due"),
    "bus": _bus,
    "owner of a line": _owner_of_line,
    "step of a snapshot": _step,
}


def _payload(payload: Callable[[str], dict[str, Any]]) -> _Keep:
    async def keep(at: _Place, text: str) -> object:
        write = replace(event("r1", "StepCompleted", "a"), payload=encode_payload(payload(text)))
        await at.store.append(R1, [write], fence=at.lease.fence)
        return (await at.store.read(R1, after=2))[0].payload == write.payload and text

    return keep


async def _metadata(at: _Place, text: str) -> object:
    metadata = encode_payload({"note": text})
    await at.store.create_run(new_run("r2", metadata=metadata), [])
    return (await at.store.get_run(RunId("r2"))).metadata == metadata and text


async def _failure(at: _Place, text: str) -> object:
    failed = AttemptSnapshot(1, StepStatus.FAILED, error=Failure(message=text))
    await at.store.save_snapshot(R1, RunSummary(last_event_seq=2), [StepSnapshot("a", failed)])
    (found,) = await at.store.find_steps(R1, ["a"])
    return found.newest.error.message if found.newest.error is not None else None


# Texts of people and programs: kept byte for byte. A lone surrogate is not valid text and cannot be kept.
PROSE: Final[dict[str, _Keep]] = {
    "a value in a payload": _payload(lambda text: {"output": text}),
    "a name in a payload": _payload(lambda text: {text: 1}),
    "the text of an alert": _payload(lambda text: {"code": "C", "subject": "s", "message": text}),
    "the name of an artifact": _payload(lambda text: {"artifacts": [{"kind": text, "uri": "a:b"}]}),
    "the metadata of a run": _metadata,
    "the failure of a step": _failure,
}


def _page(field: str) -> _Keep:
    def ask(at: _Place, text: str) -> Awaitable[object]:
        fields: dict[str, Any] = {field: text}
        return at.store.runs.page("default", RunQuery(**fields))

    return ask


async def _drop_wake_up(at: _Place, text: str) -> None:
    await at.store.append(
        R1, [event("r1", "StepStarted", f"s{hash(text)}")], fence=at.lease.fence, drop_wake_ups=[text]
    )


QUESTIONS: Final[dict[str, _Keep]] = {
    "run": lambda at, text: at.store.get_run(RunId(text)),
    "log": lambda at, text: at.store.read(RunId(text)),
    "run to append to": lambda at, text: at.store.append(RunId(text), [event("r1", "RunApproved")]),
    "run to claim": lambda at, text: at.store.claim(RunId(text), owner="o", ttl=TTL),
    "run to prune": lambda at, text: at.store.prune(RunId(text)),
    "run of a tenant": lambda at, text: at.store.runs.find("default", text),
    "tenant of a run": lambda at, text: at.store.runs.find(text, "r1"),
    "tenant of a page": lambda at, text: at.store.runs.page(text, RunQuery()),
    **{
        f"{field} of a page": _page(field)
        for field in ("project_id", "environment_id", "plan_id", "pool", "text", "cursor")
    },
    "engine": lambda at, text: at.store.run_of_engine(text, text),
    "limits": lambda at, text: at.store.limits(text),
    "steps": lambda at, text: at.store.find_steps(R1, [text]),
    "bus with waiting events": lambda at, text: at.store.has_waiting(text),
    "lines of a bus": lambda at, text: at.store.outbox_lines(text),
    "dead letters of a bus": lambda at, text: at.store.dead_letters(text),
    "line to claim": lambda at, text: at.store.claim_line(text, owner="relay", ttl=TTL),
    "dead letter to retry": lambda at, text: at.store.retry_dead(text, R1, 1),
    "dead letter to drop": lambda at, text: at.store.drop_dead(text, R1, 1),
    "bus to remove": lambda at, text: at.store.remove_bus(text),
    "steps after": lambda at, text: at.store.load_steps(R1, after=text),
    "wake-up to drop": lambda at, text: _drop_wake_up(at, text),
    "run of a dead letter": lambda at, text: at.store.retry_dead("kafka", RunId(text), 1),
}


class HostileTextPromises:
    """Kept unchanged or refused with our errors, on every store alike."""

    @pytest.mark.parametrize("field", NAMES)
    def test_no_name_has_100_kb_of_hostile_text(self, world: World, field: str) -> None:
        async def scenario() -> None:
            at = _Place(world.store, await started(world.store))
            before = await world.store.read(R1)
            for text in TEXTS.values():
                with pytest.raises((InvalidId, InvalidEvent)) as refused:
                    await NAMES[field](at, text)
                assert len(str(refused.value)) < 400
                assert str(refused.value).isprintable()
            assert await world.other.read(R1) == before
            assert await world.other.problems() == []

        world.run(scenario())

    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("field", PROSE)
    def test_100_kb_of_hostile_prose_comes_back_byte_for_byte(
        self, world: World, field: str, text: str
    ) -> None:
        async def scenario() -> None:
            at = _Place(world.store, await started(world.store))
            if text == "half characters":
                with pytest.raises(InvalidEvent):
                    await PROSE[field](at, TEXTS[text])
                assert len(await world.other.read(R1)) == 2
            else:
                assert await PROSE[field](at, TEXTS[text]) == TEXTS[text]

        world.run(scenario())

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_nothing_is_found_by_a_name_of_hostile_text(self, world: World, question: str) -> None:
        async def scenario() -> None:
            at = _Place(world.store, await started(world.store))
            await world.store.add_bus("kafka", from_start=True)
            found: Any
            for text in TEXTS.values():
                try:
                    found = await QUESTIONS[question](at, text)
                except PodiumError:
                    continue
                assert not getattr(found, "runs", found)

        world.run(scenario())

    @pytest.mark.parametrize("text", TEXTS)
    def test_what_a_broker_says_is_kept_for_people_whatever_it_is(self, world: World, text: str) -> None:
        """A relay could not react to a refusal. What is not valid text is shown as such."""

        async def scenario() -> None:
            await started(world.store)
            await world.store.add_bus("kafka", from_start=True)
            said = TEXTS[text]
            shown = said.replace("\0", "\ufffd").encode(errors="replace").decode()
            for retry_in in (timedelta(0), None):
                claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
                assert claim is not None
                assert await world.store.failed(claim, said, retry_in=retry_in)
                if retry_in is not None:
                    assert [line.error for line in await world.other.outbox_lines("kafka")] == [shown]
            assert [dead.error for dead in await world.other.dead_letters("kafka")] == [shown]

        world.run(scenario())
