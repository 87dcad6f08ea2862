"""Snapshots keep up with the log."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podium.log.alerts import Alert
from podium.log.events import EventRecord
from podium.log.fold import project
from podium.log.ids import RunId
from podium.runtime.alerts import Alerting
from podium.runtime.projecting import Projecting
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import started

R1 = RunId("r1")


class Scene:
    def __init__(self, store: MemoryStore | None = None) -> None:
        self.clock = VirtualClock()
        self.store = store or MemoryStore(self.clock)
        self.alerts: list[Alert] = []

    def projecting(self) -> Projecting:
        alerting = Alerting(self.store, self.clock, lambda _, alert: self.alerts.append(alert))
        return Projecting(self.store, self.clock, alerting)


@pytest.mark.rule("ES11", "G50")
def test_catching_up_in_pieces_gives_what_the_whole_log_gives() -> None:
    async def scenario() -> None:
        scene = Scene()
        lease = await started(scene.store)
        for number in range(30):
            step = f"s{number % 7}"
            visit = number // 7 + 1
            writes = [event("r1", "StepStarted", step, visit), event("r1", "StepCompleted", step, visit)]
            await scene.store.append(R1, writes, fence=lease.fence)
            # A new projector every time, as after a crash: it has only what is stored.
            await scene.projecting().catch_up(R1)
        whole = project(await scene.store.read(R1))
        assert await scene.store.load_summary(R1) == whole.summary
        assert await scene.store.load_steps(R1) == sorted(whole.steps.values(), key=lambda step: step.step_id)
        assert scene.alerts == []

    asyncio.run(scenario())


def test_a_run_longer_than_a_batch_is_folded_whole() -> None:
    async def scenario() -> None:
        scene = Scene()
        lease = await started(scene.store)
        writes = [event("r1", "StepCompleted", f"s{n}") for n in range(2500)]
        await scene.store.append(R1, writes, fence=lease.fence)
        snapshot = await scene.projecting().catch_up(R1)
        assert (snapshot.summary.step_count, snapshot.last_event_seq) == (2500, 2502)

    asyncio.run(scenario())


def test_something_impossible_is_alerted_about_once() -> None:
    async def scenario() -> None:
        scene = Scene()
        lease = await started(scene.store)
        await scene.store.append(R1, [event("r1", "RunResumed")], fence=lease.fence)
        snapshots = [await scene.projecting().catch_up(R1) for _ in range(3)]
        assert all(snapshot.summary.inconsistent for snapshot in snapshots)
        head = (await scene.store.get_run(R1)).head
        assert {snapshot.last_event_seq for snapshot in snapshots} == {head}
        assert [alert.code for alert in scene.alerts] == ["INVALID_TRANSITION"]

    asyncio.run(scenario())


class OvertakenWhileItReads(MemoryStore):
    """Another projector comes further between two questions of this one."""

    overtaking: Projecting | None = None

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> Any:
        other, self.overtaking = self.overtaking, None
        if other is not None:
            await other.catch_up(run_id)
        return await super().find_steps(run_id, step_ids)


def test_a_projector_that_is_overtaken_finds_nothing_impossible() -> None:
    async def scenario() -> None:
        store = OvertakenWhileItReads(VirtualClock())
        scene = Scene(store)
        lease = await started(store)
        await scene.projecting().catch_up(R1)
        for writes in ([event("r1", "StepStarted", "a")], [event("r1", "StepCompleted", "a")]):
            await store.append(R1, writes, fence=lease.fence)
            store.overtaking = scene.projecting()
            await scene.projecting().catch_up(R1)
        assert scene.alerts == []
        assert await store.load_summary(R1) == project(await store.read(R1)).summary

    asyncio.run(scenario())


class FirstReadMissesOne(MemoryStore):
    """Leaves out a record the first time it is read, as a slow replica might."""

    def __init__(self, clock: VirtualClock, missing: int, *, for_ever: bool) -> None:
        super().__init__(clock)
        self._missing = missing
        self._for_ever = for_ever

    async def read(self, *arguments: Any, **keywords: Any) -> list[EventRecord]:
        records: Sequence[EventRecord] = await super().read(*arguments, **keywords)
        found = [record for record in records if record.run_seq != self._missing]
        if len(found) < len(records) and not self._for_ever:
            self._missing = 0
        return found


@pytest.mark.rule("ES05", "ES07", "ES12", "G09")
def test_after_a_gap_the_events_are_read_again() -> None:
    async def scenario() -> None:
        scene = Scene()
        store = FirstReadMissesOne(scene.clock, 4, for_ever=False)
        scene.store = store
        lease = await started(store)
        writes = [
            event("r1", "StepStarted", "a"),
            event("r1", "StepCompleted", "a"),
            event("r1", "RunCompleted"),
        ]
        await store.append(R1, writes, fence=lease.fence)
        snapshot = await scene.projecting().catch_up(R1)
        assert (snapshot.summary.status, snapshot.summary.succeeded_steps) == ("COMPLETED", 1)
        assert snapshot.summary.stale is None
        assert [alert.code for alert in scene.alerts] == ["PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"]

    asyncio.run(scenario())


@pytest.mark.rule("G09")
def test_a_gap_that_stays_is_accepted() -> None:
    async def scenario() -> None:
        scene = Scene()
        store = FirstReadMissesOne(scene.clock, 3, for_ever=True)
        scene.store = store
        lease = await started(store)
        await store.append(R1, [event("r1", "MoonRose"), event("r1", "RunCompleted")], fence=lease.fence)
        snapshot = await scene.projecting().catch_up(R1)
        assert snapshot.summary.status == "COMPLETED"
        assert snapshot.summary.stale is None
        again = await scene.projecting().catch_up(R1)
        assert again.summary.last_event_seq == 5  # the alert about the gap is an event too
        assert len(scene.alerts) == 1

    asyncio.run(scenario())


@pytest.mark.rule("ES12")
def test_lag_is_measured_and_told_when_it_is_high() -> None:
    async def scenario() -> None:
        scene = Scene()
        await started(scene.store)
        scene.clock.move(4.9)
        projecting = scene.projecting()
        await projecting.catch_up(R1)
        assert (round(projecting.lag, 1), scene.alerts) == (4.9, [])
        await scene.store.append(R1, [event("r1", "SignalAccepted", subject="s")])
        scene.clock.move(5.1)
        await projecting.catch_up(R1)
        assert [alert.code for alert in scene.alerts] == ["PROJECTOR_LAG_HIGH"]

    asyncio.run(scenario())


def test_a_run_that_somebody_looks_at_for_the_first_time_is_not_behind() -> None:
    async def scenario() -> None:
        scene = Scene()
        await started(scene.store)
        scene.clock.move(3600)
        alerting = Alerting(scene.store, scene.clock, lambda _, alert: scene.alerts.append(alert))
        await Projecting(scene.store, scene.clock, alerting, on_demand=True).catch_up(R1)
        assert scene.alerts == []

    asyncio.run(scenario())
