"""What every store promises. A store passes when a subclass of each class below passes with its `world`.

    class TestMyStore(StorePromises):
        @pytest.fixture
        async def world(self): ...

`world.store` is the store; `world.other` is a second handle on the same data, as another process would have it (a
store in memory has none and gives itself); `world.pass_time(seconds)` lets time pass as the store measures it.
Tests are plain functions driven by `run`, so that no plugin is needed.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Protocol

import pytest

from podium.errors import (
    InvalidEvent,
    InvalidId,
    LogMoved,
    PayloadTooLarge,
    RunNotFound,
    RunNotPrunable,
    RunRefused,
    RunRequestConflict,
    StaleFence,
)
from podium.model.events import EventRecord, EventWrite, encode_payload
from podium.model.ids import RunId
from podium.model.leases import Fence, Lease, WakeUp, attempt_name
from podium.model.runs import Backpressure, EngineRunRef, RunQuery
from podium.model.snapshots import AttemptSnapshot, RunSummary, StepSnapshot
from podium.model.transitions import RunStatus, StepStatus
from podium.ports.store import Limit, Store
from podium.testing.events import event, identity, new_run

R1 = RunId("r1")
TTL = timedelta(seconds=30)


class World(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def other(self) -> Store: ...

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Drive a coroutine on the loop the store lives on."""
        ...

    def pass_time(self, seconds: float) -> None: ...


async def started(store: Store, run_id: str = "r1", **fields: Any) -> Lease:
    """A run that has begun, and the lease of whoever drives it."""
    await store.create_run(new_run(run_id, **fields), [event(run_id, "RunQueued")])
    lease = await store.claim(RunId(run_id), owner="driver", ttl=TTL)
    assert lease is not None
    await store.append(RunId(run_id), [event(run_id, "RunStarted")], fence=lease.fence)
    return lease


async def types_in(store: Store, run_id: str = "r1") -> list[str]:
    return [record.event_type for record in await store.read(RunId(run_id))]


class LogPromises:
    """Appending and reading."""

    def test_a_new_run_is_stored_with_its_first_events(self, world: World) -> None:
        async def scenario() -> None:
            created = await world.store.create_run(new_run("r1", priority=3), [event("r1", "RunQueued")])
            assert not created.duplicate
            assert [one.record.run_seq for one in created.events] == [1]
            run = await world.other.get_run(R1)
            assert run == created.run
            assert (run.identity, run.status, run.head, run.priority) == (identity("r1"), "PENDING", 1, 3)
            assert await types_in(world.other) == ["RunQueued"]

        world.run(scenario())

    def test_the_same_request_gives_the_same_run_and_stores_nothing(self, world: World) -> None:
        async def scenario() -> None:
            asked = new_run("r1", run_request_id="req-1", inputs_sha256="a")
            first = await world.store.create_run(asked, [event("r1", "RunQueued")])
            again = new_run("r2", run_request_id="req-1", inputs_sha256="a")
            second = await world.other.create_run(again, [event("r2", "RunQueued")])
            assert second.duplicate
            assert second.run == first.run
            assert (await world.store.stats()).runs == 1
            assert await types_in(world.store) == ["RunQueued"]

        world.run(scenario())

    @pytest.mark.parametrize("other", [{"inputs_sha256": "b"}, {"plan_sha256": "b"}])
    def test_the_same_request_for_something_else_is_refused(
        self, world: World, other: dict[str, Any]
    ) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", run_request_id="req-1"), [])
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r2", run_request_id="req-1", **other), [])
            assert (await world.store.stats()).runs == 1

        world.run(scenario())

    def test_a_run_id_belongs_to_one_run(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", run_request_id="a"), [])
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r1", run_request_id="b"), [])
            elsewhere = new_run("r1", run={"tenant_id": "acme"})
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(elsewhere, [])

        world.run(scenario())

    def test_events_get_rising_numbers_in_the_order_of_the_append(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            writes = [event("r1", "StepStarted", f"s{n}") for n in range(5)]
            appended = await world.store.append(R1, writes, fence=lease.fence)
            assert [one.record.run_seq for one in appended] == [3, 4, 5, 6, 7]
            assert [one.record.step_id for one in appended] == ["s0", "s1", "s2", "s3", "s4"]
            assert await world.other.read(R1, after=2) == [one.record for one in appended]
            assert (await world.store.get_run(R1)).head == 7

        world.run(scenario())

    def test_a_record_says_everything_its_write_said(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            write = event(
                "r1", "StepFailed", "Prüfe Größe[2]/Bau 🏗", 7, engine_attempt=3, error={"code": "E"}
            )
            await world.store.append(R1, [write], fence=lease.fence)
            record = (await world.other.read(R1, after=2))[0]
            assert record == EventRecord(
                identity("r1"),
                3,
                write.event_id,
                "StepFailed",
                "Prüfe Größe[2]/Bau 🏗",
                7,
                3,
                write.idempotency_key,
                write.emitted_at,
                record.persisted_at,
                b'{"error":{"code":"E"}}',
            )
            assert record.persisted_at.endswith("Z")

        world.run(scenario())

    def test_a_repeated_event_is_answered_and_not_stored(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            write = event("r1", "StepStarted", "a")
            first = await world.store.append(R1, [write], fence=lease.fence)
            second = await world.other.append(R1, [write], fence=lease.fence)
            assert (first[0].duplicate, second[0].duplicate, second[0].differs) == (False, True, False)
            assert first[0].record == second[0].record
            assert (await world.store.get_run(R1)).head == 3

        world.run(scenario())

    def test_a_repeated_event_that_says_something_else_changes_nothing_and_is_told(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            first = await world.store.append(
                R1, [event("r1", "StepCompleted", "a", exit=0)], fence=lease.fence
            )
            other = await world.store.append(
                R1, [event("r1", "StepCompleted", "a", exit=1)], fence=lease.fence
            )
            assert (other[0].duplicate, other[0].differs) == (True, True)
            assert other[0].record == first[0].record

        world.run(scenario())

    def test_of_a_batch_only_what_is_new_is_stored(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            a, b, c = (event("r1", "StepStarted", name) for name in "abc")
            await world.store.append(R1, [b], fence=lease.fence)
            appended = await world.store.append(R1, [a, b, c, a], fence=lease.fence)
            assert [(one.record.run_seq, one.duplicate) for one in appended] == [
                (4, False),
                (3, True),
                (5, False),
                (4, False),
            ]
            assert len(await world.store.read(R1)) == 5

        world.run(scenario())

    def test_a_thousand_repetitions_change_nothing(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            before = await world.store.read(R1), await world.store.get_run(R1)
            for _ in range(1000):
                await world.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)
            assert (await world.store.read(R1), await world.store.get_run(R1)) == before

        world.run(scenario())

    @pytest.mark.parametrize(
        ("broken", "error"),
        [
            ({"event_id": "not-a-uuid"}, InvalidId),
            ({"event_type": "run started"}, InvalidEvent),
            ({"idempotency_key": "short"}, InvalidEvent),
            ({"emitted_at": "yesterday"}, InvalidEvent),
            ({"emitted_at": "2026-13-01T00:00:00.000000Z"}, InvalidEvent),
            ({"step_id": None}, InvalidEvent),
            ({"step_id": "a|b"}, InvalidId),
            ({"step_id": "a\0b"}, InvalidId),
            ({"step_id": "a\ud800b"}, InvalidId),
            ({"step_id": "x" * 1025}, InvalidId),
            ({"logical_attempt_id": 0}, InvalidEvent),
            ({"payload": b"[]"}, InvalidEvent),
            ({"payload": b"{"}, InvalidEvent),
            ({"payload": b'{"a":"\xff"}'}, InvalidEvent),
            ({"payload": b'{"a":"' + b"x" * 262144 + b'"}'}, PayloadTooLarge),
        ],
        ids=lambda value: str(value)[:40] if isinstance(value, dict) else value.__name__,
    )
    def test_an_event_that_cannot_be_kept_is_refused_with_its_whole_batch(
        self, world: World, broken: dict[str, Any], error: type[Exception]
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            good, bad = event("r1", "StepStarted", "good"), event("r1", "StepStarted", "bad")
            fields = {name: getattr(bad, name) for name in bad.__struct_fields__}
            with pytest.raises(error):
                await world.store.append(R1, [good, EventWrite(**{**fields, **broken})], fence=lease.fence)
            assert await types_in(world.store) == ["RunQueued", "RunStarted"]

        world.run(scenario())

    @pytest.mark.parametrize("bad", ["", "a b", "-a", "a|b", "a/b", "é", "x" * 129, "a\0", "a\n"])
    def test_an_id_that_is_none_is_refused(self, world: World, bad: str) -> None:
        async def scenario() -> None:
            for field in ("tenant_id", "project_id", "environment_id", "plan_id", "plan_version"):
                with pytest.raises(InvalidId):
                    await world.store.create_run(new_run("r1", run={field: bad}), [])
            with pytest.raises(InvalidId):
                await world.store.create_run(new_run(bad), [])
            assert (await world.store.stats()).runs == 0

        world.run(scenario())

    @pytest.mark.parametrize(
        "text",
        [
            "\0" * 10,
            "'\";--\\",
            "\x01\x1b[31m\x7f",
            "\u2028\u202e",
            "𝔘𝔫𝔦",
            "a" * 100_000,
            "{}[]",
            "%s ? $1 :x",
        ],
        ids=ascii,
    )
    def test_any_text_in_a_payload_comes_back_byte_for_byte(self, world: World, text: str) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            write = event("r1", "StepCompleted", "a", output=text)
            await world.store.append(R1, [write], fence=lease.fence)
            assert (await world.other.read(R1, after=2))[0].payload == write.payload

        world.run(scenario())

    def test_half_a_character_cannot_be_written(self) -> None:
        with pytest.raises(InvalidEvent):
            encode_payload({"output": "\ud800"})

    def test_types_nobody_knows_are_kept(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "MoonRose")], fence=lease.fence)
            assert await types_in(world.other) == ["RunQueued", "RunStarted", "MoonRose"]
            assert (await world.store.get_run(R1)).status is RunStatus.RUNNING

        world.run(scenario())

    def test_the_status_follows_the_events_and_forbidden_ones_change_nothing(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)

            async def after(event_type: str, attempt: int = 1) -> str:
                await world.store.append(R1, [event("r1", event_type, attempt=attempt)], fence=lease.fence)
                return (await world.other.get_run(R1)).status

            assert await after("RunPaused") == "PAUSED"
            assert await after("RunCompleted", 9) == "PAUSED"
            assert await after("RunResumed") == "RUNNING"
            assert await after("RunPaused", 2) == "PAUSED"
            assert await after("RunCancelled") == "CANCELLED"

        world.run(scenario())

    def test_a_driver_that_missed_something_is_told_what(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            signal = event("r1", "SignalAccepted", subject="sig-1")
            await world.other.append(R1, [signal])
            with pytest.raises(LogMoved) as moved:
                await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence, after=2)
            assert [record.event_type for record in moved.value.missed] == ["SignalAccepted"]  # type: ignore[attr-defined]
            assert (await world.store.get_run(R1)).status is RunStatus.RUNNING
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence, after=3)
            assert (await world.store.get_run(R1)).status is RunStatus.COMPLETED

        world.run(scenario())

    def test_reading_goes_on_where_it_stopped(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(
                R1, [event("r1", "StepStarted", f"s{n}") for n in range(8)], fence=lease.fence
            )
            seen: list[int] = []
            while page := await world.other.read(R1, after=seen[-1] if seen else 0, limit=3):
                assert len(page) <= 3
                seen += [record.run_seq for record in page]
            assert seen == list(range(1, 11))

        world.run(scenario())

    def test_a_run_that_does_not_exist_is_not_found(self, world: World) -> None:
        async def scenario() -> None:
            with pytest.raises(RunNotFound):
                await world.store.read(R1)
            with pytest.raises(RunNotFound):
                await world.store.get_run(R1)
            with pytest.raises(RunNotFound):
                await world.store.append(R1, [event("r1", "RunQueued")])
            with pytest.raises(RunNotFound):
                await world.store.claim(R1, owner="o", ttl=TTL)

        world.run(scenario())

    def test_a_watcher_sees_everything_once_and_in_order(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            seen: list[int] = []

            async def watching() -> None:
                async for records in world.other.watch(R1, after=1):
                    seen.extend(record.run_seq for record in records)
                    if len(seen) >= 21:
                        return

            watcher = asyncio.create_task(watching())
            for number in range(20):
                await world.store.append(R1, [event("r1", "StepStarted", f"s{number}")], fence=lease.fence)
                await asyncio.sleep(0)
            await asyncio.wait_for(watcher, 10)
            assert seen == list(range(2, 23))

        world.run(scenario())

    def test_a_run_is_found_by_the_ids_of_its_engine(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            engine = EngineRunRef(provider="temporal", workflow_id="podium-r1", provider_run_id="x")
            await world.store.set_engine(R1, engine, fence=lease.fence)
            found = await world.other.run_of_engine(engine)
            assert found is not None
            assert (found.identity.run_id, found.engine) == ("r1", engine)
            other = EngineRunRef(provider="temporal", workflow_id="podium-r1", provider_run_id="y")
            assert await world.store.run_of_engine(other) is None
            with pytest.raises(StaleFence):
                await world.store.set_engine(R1, other, fence=Fence(lease.fence.generation + 1))

        world.run(scenario())


class TenantPromises:
    """One tenant never sees another's runs."""

    def test_another_tenants_run_looks_like_one_that_does_not_exist(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(
                new_run("theirs", run={"tenant_id": "acme"}), [event("theirs", "RunQueued")]
            )
            told = []
            for run_id in ("theirs", "missing"):
                with pytest.raises(RunNotFound) as refused:
                    await world.store.runs.find("default", run_id)
                told.append(str(refused.value).replace(run_id, "X"))
            assert told[0] == told[1]
            assert (await world.store.runs.find("acme", "theirs")).identity.tenant_id == "acme"

        world.run(scenario())

    def test_runs_are_listed_newest_first_page_by_page(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(7):
                await world.store.create_run(new_run(f"r{number}"), [])
            await world.store.create_run(new_run("theirs", run={"tenant_id": "acme"}), [])
            seen, cursor = [], None
            for _ in range(4):
                page = await world.other.runs.page("default", RunQuery(limit=3, cursor=cursor))
                seen += [run.identity.run_id for run in page.runs]
                cursor = page.cursor
                if cursor is None:
                    break
            assert seen == [f"r{number}" for number in range(6, -1, -1)]

        world.run(scenario())

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            (RunQuery(statuses=frozenset({RunStatus.RUNNING})), ["b"]),
            (RunQuery(statuses=frozenset({RunStatus.PENDING, RunStatus.RUNNING})), ["c", "b", "a"]),
            (RunQuery(plan_id="other"), ["c"]),
            (RunQuery(project_id="nowhere"), []),
            (RunQuery(environment_id="local"), ["c", "b", "a"]),
            (RunQuery(created_before="2000-01-01T00:00:00.000000Z"), []),
        ],
        ids=["one status", "two statuses", "plan", "project", "environment", "age"],
    )
    def test_runs_are_filtered(self, world: World, query: RunQuery, found: list[str]) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("a"), [])
            await started(world.store, "b")
            await world.store.create_run(new_run("c", run={"plan_id": "other"}), [])
            page = await world.store.runs.page("default", query)
            assert [run.identity.run_id for run in page.runs] == found

        world.run(scenario())


class LeasePromises:
    """Who may write."""

    def test_a_lease_has_one_holder(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            assert await world.store.claim(R1, owner="a", ttl=TTL) is not None
            assert await world.other.claim(R1, owner="b", ttl=TTL) is None
            assert await world.other.claim(R1, owner="a", ttl=TTL) is None

        world.run(scenario())

    def test_a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off(self, world: World) -> None:
        async def scenario() -> None:
            old = await started(world.store)
            world.pass_time(31)
            new = await world.other.claim(R1, owner="successor", ttl=TTL)
            assert new is not None
            assert new.fence.generation > old.fence.generation
            with pytest.raises(StaleFence):
                await world.store.append(
                    R1, [event("r1", "RunStarted"), event("r1", "StepStarted", "a")], fence=old.fence
                )
            assert await types_in(world.store) == ["RunQueued", "RunStarted"]
            # What is in the log already is answered even to the old holder.
            again = await world.store.append(R1, [event("r1", "RunStarted")], fence=old.fence)
            assert again[0].duplicate
            await world.other.append(R1, [event("r1", "StepStarted", "a")], fence=new.fence)
            assert await world.store.renew(old, ttl=TTL) is None

        world.run(scenario())

    def test_a_renewed_lease_does_not_lapse(self, world: World) -> None:
        async def scenario() -> None:
            lease: Lease | None = await started(world.store)
            for _ in range(5):
                world.pass_time(20)
                assert lease is not None
                lease = await world.store.renew(lease, ttl=TTL)
            assert await world.other.claim(R1, owner="b", ttl=TTL) is None

        world.run(scenario())

    def test_a_lapsed_lease_cannot_be_renewed_for_its_slot_may_be_taken(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            world.pass_time(31)
            assert await world.store.renew(lease, ttl=TTL) is None
            # Nobody has taken it, so what its holder knows is still recorded.
            await world.store.append(R1, [event("r1", "StepCompleted", "a")], fence=lease.fence)
            assert await world.store.claim(R1, owner="driver", ttl=TTL) is not None

        world.run(scenario())

    def test_a_released_lease_is_free_and_its_holder_fenced_off(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.release(lease)
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
            assert await world.store.renew(lease, ttl=TTL) is None
            successor = await world.other.claim(R1, owner="b", ttl=TTL)
            assert successor is not None
            assert successor.fence.generation > lease.fence.generation
            await world.store.release(lease)  # too late: it is somebody else's
            await world.other.append(R1, [event("r1", "StepStarted", "a")], fence=successor.fence)

        world.run(scenario())

    def test_without_a_lease_only_what_others_decided_can_be_recorded(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            for allowed in (
                event("r1", "SignalAccepted", subject="s1"),
                event("r1", "SignalRejected", subject="s2"),
                event("r1", "AlertRaised", subject="CODE:1"),
                event("r1", "RunApproved"),
            ):
                await world.store.append(R1, [allowed])
            for refused in (
                event("r1", "RunCompleted"),
                event("r1", "StepStarted", "a"),
                event("r1", "TimerFired", subject="t"),
                event("r1", "MoonRose"),
            ):
                with pytest.raises(StaleFence):
                    await world.store.append(R1, [refused])
            assert (await world.store.get_run(R1)).head == 6

        world.run(scenario())

    def test_the_lease_of_an_attempt_is_for_the_events_of_that_attempt(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            name = attempt_name("build", 2)
            lease = await world.store.claim(R1, owner="worker", ttl=TTL, attempt=name)
            assert lease is not None
            await world.store.append(R1, [event("r1", "StepStarted", "build", 2)], fence=lease.fence)
            for refused in (
                event("r1", "StepCompleted", "build", 1),
                event("r1", "StepCompleted", "test", 2),
                event("r1", "RunCompleted"),
            ):
                with pytest.raises(StaleFence):
                    await world.store.append(R1, [refused], fence=lease.fence)
            assert await world.store.claim(R1, owner="other", ttl=TTL, attempt=name) is None

        world.run(scenario())

    def test_the_end_of_a_run_gives_up_its_leases(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "MoonRose")], fence=lease.fence)
            assert await world.store.claim(R1, owner="b", ttl=TTL) is not None

        world.run(scenario())


class QueuePromises:
    """Which run starts next, and how many run at once."""

    def test_runs_start_in_order_of_priority_then_age_each_once(self, world: World) -> None:
        async def scenario() -> None:
            for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
                await world.store.create_run(new_run(name, priority=priority), [event(name, "RunQueued")])
            order = []
            while claimed := await world.other.claim_next(owner="w", ttl=TTL):
                order.append(claimed.run.identity.run_id)
                assert claimed.lease.owner == "w"
            assert order == ["b", "d", "a", "c"]

        world.run(scenario())

    def test_many_reconcilers_never_start_a_run_twice(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(30):
                await world.store.create_run(new_run(f"r{number}"), [])

            async def reconciler(store: Store, name: str) -> list[str]:
                got: list[str] = []
                while claimed := await store.claim_next(owner=name, ttl=TTL):
                    got.append(claimed.run.identity.run_id)
                return got

            both = (world.store, world.other)
            taken = await asyncio.gather(*(reconciler(both[n % 2], f"w{n}") for n in range(6)))
            started = [run_id for each in taken for run_id in each]
            assert sorted(started) == sorted(f"r{number}" for number in range(30))

        world.run(scenario())

    def test_a_claimed_run_that_was_never_started_is_handed_out_again(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            first = await world.store.claim_next(owner="dies", ttl=TTL)
            assert first is not None
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            world.pass_time(31)
            second = await world.store.claim_next(owner="w", ttl=TTL)
            assert second is not None
            assert second.lease.fence.generation > first.lease.fence.generation

        world.run(scenario())

    def test_a_delayed_run_waits_for_its_time(self, world: World) -> None:
        async def scenario() -> None:
            late = new_run("late", backpressure=Backpressure.DELAY, start_at="2999-01-01T00:00:00.000000Z")
            early = new_run("early", backpressure=Backpressure.DELAY, start_at="2000-01-01T00:00:00.000000Z")
            await world.store.create_run(late, [])
            await world.store.create_run(early, [])
            claimed = await world.store.claim_next(owner="w", ttl=TTL)
            assert claimed is not None
            assert claimed.run.identity.run_id == "early"
            assert await world.store.claim_next(owner="w", ttl=TTL) is None

        world.run(scenario())

    def test_a_run_that_needs_approval_waits_for_it(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", needs_approval=True), [])
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            await world.store.append(R1, [event("r1", "RunApproved")])
            assert await world.store.claim_next(owner="w", ttl=TTL) is not None

        world.run(scenario())

    def test_a_tenant_with_many_runs_does_not_keep_another_waiting(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(1000):
                await world.store.create_run(new_run(f"a{number}", run={"tenant_id": "a"}), [])
            await world.store.create_run(new_run("b", run={"tenant_id": "b"}), [])
            for _ in range(2):
                claimed = await world.store.claim_next(owner="w", ttl=TTL)
                assert claimed is not None
                lease, run_id = claimed.lease, claimed.run.identity.run_id
                ended = [event(run_id, "RunStarted"), event(run_id, "RunCompleted")]
                await world.store.append(run_id, ended, fence=lease.fence)
                if run_id == "b":
                    return
            raise AssertionError("the other tenant was not among the next two")

        world.run(scenario())

    @pytest.mark.parametrize(
        ("scope", "name"),
        [("tenant", "default"), ("project", "p"), ("plan", "nightly"), ("concurrency", "k")],
    )
    def test_no_more_runs_are_live_than_a_limit_allows(self, world: World, scope: str, name: str) -> None:
        async def scenario() -> None:
            await world.store.set_limit(Limit("default", scope, name, 2))
            assert await world.other.limits("default") == [Limit("default", scope, name, 2)]
            for number in range(4):
                within = new_run(f"r{number}", run={"project_id": "p"}, concurrency_key="k")
                await world.store.create_run(within, [])
            leases = []
            while claimed := await world.store.claim_next(owner="w", ttl=TTL):
                leases.append(claimed.lease)
            assert len(leases) == 2
            assert await world.other.claim(RunId("r3"), owner="w", ttl=TTL) is None
            await world.store.release(leases[0])
            assert await world.store.claim_next(owner="w", ttl=TTL) is not None
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            one_more = new_run(
                "no", run={"project_id": "p"}, concurrency_key="k", backpressure=Backpressure.REJECT
            )
            with pytest.raises(RunRefused) as refused:
                await world.store.create_run(one_more, [])
            assert refused.value.retry_after_seconds > 0
            with pytest.raises(RunNotFound):
                await world.store.get_run(RunId("no"))
            outside = {"tenant_id": "other", "project_id": "q", "plan_id": "z"}
            await world.store.create_run(new_run("out", run=outside), [])
            free = await world.store.claim_next(owner="w", ttl=TTL)
            assert free is not None
            assert free.run.identity.run_id == "out"

        world.run(scenario())

    def test_the_slot_of_a_dead_holder_is_free_and_recovery_needs_one(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            await started(world.store, "r1")
            await world.store.create_run(new_run("r2"), [])
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            world.pass_time(31)
            waiting = await world.store.claim_next(owner="w", ttl=TTL)
            assert waiting is not None
            assert waiting.run.identity.run_id == "r2"
            # The dead holder's run has to wait for a slot like everybody else.
            assert await world.store.claim_lapsed(owner="w", ttl=TTL) is None
            await world.store.release(waiting.lease)
            recovered = await world.store.claim_lapsed(owner="w", ttl=TTL)
            assert recovered is not None
            assert recovered.run.identity.run_id == "r1"

        world.run(scenario())

    def test_only_started_runs_without_a_holder_are_recovered(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("waiting"), [])
            lease = await started(world.store, "done")
            await world.store.append(RunId("done"), [event("done", "RunCompleted")], fence=lease.fence)
            await started(world.store, "live")
            assert await world.store.claim_lapsed(owner="w", ttl=TTL) is None
            world.pass_time(31)
            recovered = await world.store.claim_lapsed(owner="w", ttl=TTL)
            assert recovered is not None
            assert recovered.run.identity.run_id == "live"
            assert await world.store.claim_lapsed(owner="w", ttl=TTL) is None

        world.run(scenario())


class TimerPromises:
    def test_wake_ups_are_due_in_order_and_gone_when_dropped(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            wake_ups = [_wake_up("b", 2), _wake_up("a", 2), _wake_up("c", 1), _wake_up("later", 9)]
            await world.store.append(
                R1, [event("r1", "StepStarted", "x")], fence=lease.fence, set_wake_ups=wake_ups
            )
            due = await world.other.due(_at(5))
            assert [wake_up.key for wake_up in due] == ["c", "a", "b"]
            assert due[0] == _wake_up("c", 1)
            assert [wake_up.key for wake_up in await world.store.due(_at(5), limit=1)] == ["c"]
            await world.store.append(
                R1,
                [event("r1", "TimerFired", subject="c")],
                fence=lease.fence,
                set_wake_ups=[_wake_up("a", 7)],
                drop_wake_ups=["c"],
            )
            assert [wake_up.key for wake_up in await world.other.due(_at(5))] == ["b"]

        world.run(scenario())

    def test_a_refused_append_sets_no_wake_up(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            with pytest.raises(StaleFence):
                await world.store.append(
                    R1, [event("r1", "StepStarted", "x")], fence=Fence(99), set_wake_ups=[_wake_up("a", 1)]
                )
            assert await world.store.due(_at(5)) == []

        world.run(scenario())

    def test_an_ended_run_has_no_wake_ups(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(
                R1, [event("r1", "StepStarted", "x")], fence=lease.fence, set_wake_ups=[_wake_up("a", 1)]
            )
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.store.due(_at(5)) == []

        world.run(scenario())


class SnapshotPromises:
    def test_a_snapshot_comes_back_and_an_older_one_never_replaces_it(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            assert await world.store.load_summary(R1) is None
            newer = RunSummary(status=RunStatus.RUNNING, last_event_seq=9, step_count=2)
            await world.store.save_snapshot(R1, newer, [_step("a"), _step("b")])
            older = RunSummary(last_event_seq=3)
            await world.store.save_snapshot(R1, older, [_step("a", StepStatus.FAILED)])
            assert await world.other.load_summary(R1) == newer
            assert await world.other.load_steps(R1) == [_step("a"), _step("b")]
            await world.store.save_snapshot(
                R1, RunSummary(last_event_seq=10), [_step("b", StepStatus.FAILED), _step("c")]
            )
            steps = await world.other.load_steps(R1, after="a", limit=5)
            assert steps == [_step("b", StepStatus.FAILED), _step("c")]
            found = await world.other.find_steps(R1, ["c", "missing", "a"])
            assert sorted(step.step_id for step in found) == ["a", "c"]

        world.run(scenario())


class OutboxPromises:
    """Every event reaches every bus at least once, in the order of its run."""

    def test_without_a_bus_nothing_waits(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            assert await world.store.outbox_lines() == []
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is None

        world.run(scenario())

    def test_a_new_bus_starts_now_or_from_the_start(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.add_bus("new")
            await world.store.add_bus("all", from_start=True)
            await world.store.add_bus("all")  # adding it again changes nothing
            await world.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
            assert await _waiting(world.other, "new") == [3]
            assert await _waiting(world.other, "all") == [1, 2, 3]

        world.run(scenario())

    def test_a_line_is_held_by_one_relay_and_what_was_delivered_is_gone(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store, "r1")
            await started(world.store, "r2")
            first = await world.store.claim_line("kafka", owner="relay1", ttl=TTL)
            second = await world.other.claim_line("kafka", owner="relay2", ttl=TTL)
            assert first is not None
            assert second is not None
            assert {first.run_id, second.run_id} == {"r1", "r2"}
            assert await world.store.claim_line("kafka", owner="relay3", ttl=TTL) is None
            assert [record.run_seq for record in first.records] == [1, 2]
            assert await world.store.delivered(first, 1)
            assert await world.other.delivered(second, 2)
            rest = await world.store.claim_line("kafka", owner="relay1", ttl=TTL)
            assert rest is not None
            assert (rest.run_id, [record.run_seq for record in rest.records]) == (first.run_id, [2])

        world.run(scenario())

    def test_a_busy_run_does_not_keep_the_others_from_being_delivered(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            lease = await started(world.store, "busy")
            await started(world.store, "quiet")
            served = []
            for number in range(3):
                claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
                assert claim is not None
                served.append(claim.run_id)
                await world.store.delivered(claim, claim.records[-1].run_seq)
                await world.store.append(
                    RunId("busy"), [event("busy", "StepStarted", f"s{number}")], fence=lease.fence
                )
            assert served == ["busy", "quiet", "busy"]

        world.run(scenario())

    def test_a_relay_that_lost_its_claim_changes_nothing(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store)
            lost = await world.store.claim_line("kafka", owner="slow", ttl=TTL)
            assert lost is not None
            world.pass_time(31)
            taken = await world.other.claim_line("kafka", owner="quick", ttl=TTL)
            assert taken is not None
            assert not await world.store.delivered(lost, 2)
            assert not await world.store.failed(lost, "late", retry_in=None)
            assert [record.run_seq for record in taken.records] == [1, 2]
            assert await world.other.delivered(taken, 2)
            assert await world.store.outbox_lines() == []

        world.run(scenario())

    def test_a_failure_holds_its_line_for_a_while_and_no_other(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store, "r1")
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert claim.failures == 0
            assert await world.store.failed(claim, "broker is down", retry_in=timedelta(seconds=5))
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is None
            await started(world.store, "r2")
            other = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert other is not None
            assert other.run_id == "r2"
            line = next(line for line in await world.other.outbox_lines("kafka") if line.run_id == "r1")
            assert (line.waiting, line.first_seq, line.failures, line.error) == (2, 1, 1, "broker is down")
            world.pass_time(6)
            again = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert again is not None
            assert (again.run_id, again.failures) == ("r1", 1)

        world.run(scenario())

    def test_a_dead_letter_is_kept_apart_and_its_line_goes_on(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert await world.store.failed(claim, "refused", retry_in=None)
            dead = await world.other.dead_letters("kafka")
            assert [(one.run_id, one.run_seq, one.event_type, one.error) for one in dead] == [
                ("r1", 1, "RunQueued", "refused")
            ]
            assert await _waiting(world.store, "kafka") == [2]
            assert await world.store.retry_dead("kafka", R1, 1)
            assert not await world.store.retry_dead("kafka", R1, 1)
            assert await world.store.dead_letters() == []
            world.pass_time(31)
            assert await _waiting(world.store, "kafka") == [1, 2]

        world.run(scenario())

    def test_a_dead_letter_can_be_dropped_and_a_bus_removed(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            await world.store.failed(claim, "refused", retry_in=None)
            assert await world.store.drop_dead("kafka", R1, 1)
            assert not await world.store.drop_dead("kafka", R1, 1)
            await world.store.remove_bus("kafka")
            assert await world.store.outbox_lines() == []
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is None

        world.run(scenario())

    def test_duplicates_are_not_delivered_again(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            lease = await started(world.store)
            for _ in range(3):
                await world.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)
            assert await _waiting(world.store, "kafka") == [1, 2]

        world.run(scenario())


class PruningPromises:
    def test_only_ended_runs_whose_events_were_delivered_can_be_removed(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            with pytest.raises(RunNotPrunable):
                await world.store.prune(R1)
            await world.store.add_bus("kafka")
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            with pytest.raises(RunNotPrunable):
                await world.store.prune(R1)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            await world.store.delivered(claim, 3)
            await world.store.prune(R1)
            with pytest.raises(RunNotFound):
                await world.other.read(R1)
            assert (await world.store.stats()).events == 0

        world.run(scenario())

    def test_a_removed_run_is_not_run_again_by_a_repeated_request(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store, run_request_id="req-1")
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            await world.store.prune(R1)
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r2", run_request_id="req-1"), [])
            # Nor does another run get its id: an old fence would fit again.
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r1", run_request_id="req-2"), [])

        world.run(scenario())

    def test_a_sound_store_has_no_problems_and_counts_what_it_keeps(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store, "r1")
            await started(world.store, "r2")
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.other.problems() == []
            stats = await world.other.stats()
            assert (stats.runs, stats.open_runs, stats.events) == (2, 1, 5)

        world.run(scenario())


class StorePromises(
    LogPromises,
    TenantPromises,
    LeasePromises,
    QueuePromises,
    TimerPromises,
    SnapshotPromises,
    OutboxPromises,
    PruningPromises,
):
    """All of them."""


def _at(seconds: int) -> str:
    return f"2026-01-01T12:00:{seconds:02}.000000Z"


def _wake_up(key: str, seconds: int) -> WakeUp:
    return WakeUp(run_id=R1, key=key, due=_at(seconds))


def _step(name: str, status: StepStatus = StepStatus.SUCCESS) -> StepSnapshot:
    return StepSnapshot(name, AttemptSnapshot(1, status))


async def _waiting(store: Store, bus: str) -> Sequence[int]:
    claim = await store.claim_line(bus, owner="looking", ttl=timedelta(seconds=0))
    return [record.run_seq for record in claim.records] if claim is not None else []
