"""The promises notice when a store does not keep them: the store in memory, broken in one way at a time."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from podium.log.events import EventRecord, EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.log.runs import Run
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.transitions import TERMINAL
from podium.ports.store import AppendedEvent, Claimed
from podium.stores.memory import MemoryStore
from podium.stores.memory.state import KeptRun
from podium.stores.memory.tenant_runs import MemoryTenantRuns
from podium.testing import store_promises as promises
from podium.testing.clock import VirtualClock
from tests.promises.broken import Broken, assert_noticed
from tests.promises.broken_feeds import BROKEN_FEEDS


class BrokenWorld:
    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self.store = self.other = store
        self._clock = clock

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(coroutine, 10))

    def pass_time(self, seconds: float) -> None:
        self._clock.move(seconds)


class ForgetsKeys(MemoryStore):
    async def append(self, run_id: RunId, *args: Any, **kwargs: Any) -> tuple[AppendedEvent, ...]:
        self._kept(run_id).by_key.clear()
        return await super().append(run_id, *args, **kwargs)


class AsksForNoFence(MemoryStore):
    async def append(
        self, run_id: RunId, *args: Any, fence: Fence | None = None, **kwargs: Any
    ) -> tuple[AppendedEvent, ...]:
        if fence is not None:
            fence = replace(fence, generation=self._kept(run_id).leases[fence.attempt].generation)
        return await super().append(run_id, *args, fence=fence, **kwargs)


class KeepsItsStatus(MemoryStore):
    def _store(self, kept: KeptRun, fresh: Sequence[EventWrite]) -> list[EventRecord]:
        before = kept.row.status
        stored = super()._store(kept, fresh)
        kept.row = replace(kept.row, status=before)
        return stored


class SetsWakeUpsBeforeItChecks(MemoryStore):
    async def append(self, run_id: RunId, *args: Any, **kwargs: Any) -> tuple[AppendedEvent, ...]:
        wake_ups = kwargs.get("set_wake_ups", ())
        self._kept(run_id).wake_ups.update({wake_up.key: wake_up.due for wake_up in wake_ups})
        return await super().append(run_id, *args, **kwargs)


class SendsDuplicatesToBuses(MemoryStore):
    async def append(self, run_id: RunId, *args: Any, **kwargs: Any) -> tuple[AppendedEvent, ...]:
        answer = await super().append(run_id, *args, **kwargs)
        for lines in self._buses.values():
            lines[run_id].waiting.extend(one.record.run_seq for one in answer if one.duplicate)
        return answer


class SendsNothingToBuses(MemoryStore):
    def _store(self, kept: KeptRun, fresh: Sequence[EventWrite]) -> list[EventRecord]:
        buses, self._buses = self._buses, {}
        try:
            return super()._store(kept, fresh)
        finally:
            self._buses = buses


class ShowsEverybodyEverything(MemoryStore):
    @property
    def runs(self) -> MemoryTenantRuns:
        class Open(MemoryTenantRuns):
            async def find(self, tenant_id: str, run_id: str) -> Run:
                return self._runs[run_id].row

        return Open(self._runs)


class CountsNoSlots(MemoryStore):
    def _full_limit(self, scopes: Any) -> str | None:
        return None


class KeepsLeasesAfterTheEnd(MemoryStore):
    def _store(self, kept: KeptRun, fresh: Sequence[EventWrite]) -> list[EventRecord]:
        before = {name: (lease.owner, lease.expires) for name, lease in kept.leases.items()}
        stored = super()._store(kept, fresh)
        for name, (owner, expires) in before.items():
            kept.leases[name].owner, kept.leases[name].expires = owner, expires
        return stored


class KeepsWakeUpsAfterTheEnd(MemoryStore):
    def _store(self, kept: KeptRun, fresh: Sequence[EventWrite]) -> list[EventRecord]:
        before = dict(kept.wake_ups)
        stored = super()._store(kept, fresh)
        kept.wake_ups.update(before)
        return stored


class LetsAnybodyAppendAfterAnything(MemoryStore):
    async def append(
        self, run_id: RunId, *args: Any, after: int | None = None, **kwargs: Any
    ) -> tuple[AppendedEvent, ...]:
        return await super().append(run_id, *args, **kwargs)


class StoresTheFirstHalf(MemoryStore):
    async def append(
        self, run_id: RunId, writes: Sequence[EventWrite], **kwargs: Any
    ) -> tuple[AppendedEvent, ...]:
        answers: tuple[AppendedEvent, ...] = ()
        for write in writes:
            answers += await super().append(run_id, [write], **kwargs)
        return answers


class ServesTheOldestFirst(MemoryStore):
    def _turn(self, kept: KeptRun) -> tuple[int, int, int, int]:
        return 0, 0, -kept.row.priority, kept.number


class RemovesOpenRuns(MemoryStore):
    async def prune(self, run_id: RunId) -> None:
        del self._runs[run_id]


class LetsOlderSnapshotsWin(MemoryStore):
    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        self._kept(run_id).summary = None
        await super().save_snapshot(run_id, summary, changed_steps)


class HandsOutEndedRuns(MemoryStore):
    async def claim_of_pool(self, pool: str, **kwargs: Any) -> Any:
        for kept in self._runs.values():
            if kept.row.status in TERMINAL:
                return [Claimed(kept.row, self._take(kept, kwargs["owner"], kwargs["ttl"], ""))]
        return await super().claim_of_pool(pool, **kwargs)


_log, _lease, _queue = promises.LogPromises, promises.LeasePromises, promises.QueuePromises

BROKEN = [
    *BROKEN_FEEDS,
    Broken("forgets keys", _log.test_a_repeated_event_is_answered_and_not_stored, make=ForgetsKeys),
    Broken(
        "asks for no fence",
        _lease.test_a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off,
        make=AsksForNoFence,
    ),
    Broken(
        "keeps its status",
        _log.test_the_status_follows_the_events_and_forbidden_ones_change_nothing,
        make=KeepsItsStatus,
    ),
    Broken(
        "sets wake-ups before it checks",
        promises.TimerPromises.test_a_refused_append_sets_no_wake_up,
        make=SetsWakeUpsBeforeItChecks,
    ),
    Broken(
        "sends duplicates to buses",
        promises.OutboxPromises.test_duplicates_are_not_delivered_again,
        make=SendsDuplicatesToBuses,
    ),
    Broken(
        "sends nothing to buses",
        promises.OutboxPromises.test_a_new_bus_starts_now_or_from_the_start,
        make=SendsNothingToBuses,
    ),
    Broken(
        "shows everybody everything",
        promises.TenantPromises.test_another_tenants_run_looks_like_one_that_does_not_exist,
        make=ShowsEverybodyEverything,
    ),
    Broken(
        "counts no slots",
        _queue.test_no_more_runs_are_live_than_a_limit_allows,
        make=CountsNoSlots,
        arguments={"scope": "tenant", "name": "default"},
    ),
    Broken(
        "keeps leases after the end",
        _lease.test_the_end_of_a_run_gives_up_its_leases,
        make=KeepsLeasesAfterTheEnd,
    ),
    Broken(
        "keeps wake-ups after the end",
        promises.TimerPromises.test_an_ended_run_has_no_wake_ups,
        make=KeepsWakeUpsAfterTheEnd,
    ),
    Broken(
        "lets anybody append after anything",
        _log.test_a_driver_that_missed_something_is_told_what,
        make=LetsAnybodyAppendAfterAnything,
    ),
    Broken(
        "stores the first half of a refused append",
        _lease.test_a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off,
        make=type("Both", (StoresTheFirstHalf, AsksForNoFence), {}),
    ),
    Broken(
        "stores what stands before a bad event",
        _log.test_an_event_that_cannot_be_kept_is_refused_with_its_whole_batch,
        make=StoresTheFirstHalf,
        arguments={"broken": {"payload": b"["}, "error": Exception},
    ),
    Broken(
        "serves the oldest first",
        promises.PoolPromises.test_a_tenant_with_many_runs_in_a_pool_does_not_keep_another_waiting,
        make=ServesTheOldestFirst,
    ),
    Broken(
        "removes open runs",
        promises.PruningPromises.test_only_ended_runs_whose_events_were_delivered_can_be_removed,
        make=RemovesOpenRuns,
    ),
    Broken(
        "lets older snapshots win",
        promises.SnapshotPromises.test_a_snapshot_comes_back_and_an_older_one_never_replaces_it,
        make=LetsOlderSnapshotsWin,
    ),
    Broken(
        "hands out ended runs",
        _queue.test_only_started_runs_without_a_holder_are_recovered,
        make=HandsOutEndedRuns,
    ),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.title)
def test_a_store_that_breaks_a_promise_is_noticed(broken: Broken) -> None:
    assert broken.make is not None
    clock = VirtualClock()
    assert_noticed(broken, BrokenWorld(broken.make(clock), clock))


# In the same order in every process that takes part in a test run.
@pytest.mark.parametrize(
    "promise", dict.fromkeys(broken.promise for broken in BROKEN), ids=lambda p: p.__name__[5:60]
)
def test_the_sound_store_keeps_these_promises_in_the_same_world(promise: Any) -> None:
    arguments = next(broken.arguments for broken in BROKEN if broken.promise is promise)
    clock = VirtualClock()
    promise(None, BrokenWorld(MemoryStore(clock), clock), **arguments)
