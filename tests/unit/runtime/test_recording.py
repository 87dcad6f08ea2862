"""Events are recorded within the budget, or the caller knows."""

import asyncio
from typing import Any

import pytest

from podium.errors import StaleFence, StoreUnavailable
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.payloads import fields_of
from podium.runtime.recording import Recorder
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import started
from podium.testing.virtual_time import run_virtually

R1 = RunId("r1")
START = event("r1", "StepStarted", "a")
CRITICAL = [
    event("r1", "StepCompleted", "a"),
    event("r1", "StepFailed", "a"),
    event("r1", "RunCompleted"),
    event("r1", "TimerFired", subject="t"),
    event("r1", "MoonRose"),
]


class StallingStore(MemoryStore):
    """A store that takes its time, or is down for a while."""

    stall = 0.0
    down_until = 0.0

    async def append(self, *arguments: Any, **keywords: Any) -> Any:
        if asyncio.get_running_loop().time() < self.down_until:
            raise StoreUnavailable("the disk is full")
        await asyncio.sleep(self.stall)
        return await super().append(*arguments, **keywords)


@pytest.mark.rule("G45")
def test_an_event_with_other_content_than_its_record_raises_one_alert(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        lease = await started(store)
        recorder = Recorder(store)
        await recorder.append(R1, [event("r1", "StepCompleted", "a", output="one")], fence=lease.fence)
        again = event("r1", "StepCompleted", "a", output="two")
        for _ in range(3):
            (kept,) = await recorder.append(R1, [again], fence=lease.fence)
            assert kept.differs
        same = event("r1", "StepCompleted", "a", output="one")
        await recorder.append(R1, [same], fence=lease.fence)
        alerts = [fields_of(one) for one in await store.read(R1) if one.event_type == "AlertRaised"]
        assert [(one["code"], one["subject"]) for one in alerts] == [("EVENT_CONTENT_DIFFERS", "3")]
        assert "StepCompleted of a was written again with other content" in alerts[0]["message"]

    asyncio.run(scenario())
    assert len(caplog.records) == 1


@pytest.mark.parametrize("write", [START, *CRITICAL], ids=lambda write: write.event_type)
def test_a_store_that_answers_just_in_time_is_waited_for(write: EventWrite) -> None:
    async def scenario() -> None:
        store = StallingStore(VirtualClock())
        lease = await started(store)
        store.stall = 2.9
        appended = await Recorder(store).append(R1, [write], fence=lease.fence)
        assert appended is not None
        assert [one.record.event_type for one in appended] == [write.event_type]

    run_virtually(scenario())


@pytest.mark.parametrize("write", [START, *CRITICAL], ids=lambda write: write.event_type)
@pytest.mark.rule("ES20", "G43")
def test_nothing_fails_open(write: EventWrite) -> None:
    async def scenario() -> None:
        store = StallingStore(VirtualClock())
        lease = await started(store)
        store.stall = 3.1
        recorder = Recorder(store)
        with pytest.raises(StoreUnavailable, match=f"writing {write.event_type} timed out after 3 seconds"):
            await recorder.append(R1, [write], fence=lease.fence)

    run_virtually(scenario())


@pytest.mark.rule("G17")
def test_a_store_that_comes_back_within_the_budget_is_not_noticed() -> None:
    async def scenario() -> None:
        store = StallingStore(VirtualClock())
        lease = await started(store)
        store.down_until = 2.8
        appended = await Recorder(store).append(R1, [CRITICAL[0]], fence=lease.fence)
        assert appended is not None
        assert not appended[0].duplicate

    run_virtually(scenario())


def test_a_store_that_stays_down_is_told_with_its_reason() -> None:
    async def scenario() -> None:
        store = StallingStore(VirtualClock())
        lease = await started(store)
        store.down_until = 99
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await Recorder(store).append(R1, [CRITICAL[0]], fence=lease.fence)

    run_virtually(scenario())


def test_a_refusal_is_not_waited_out() -> None:
    async def scenario() -> None:
        store = StallingStore(VirtualClock())
        await started(store)
        with pytest.raises(StaleFence):
            await Recorder(store).append(R1, [CRITICAL[0]])
        assert asyncio.get_running_loop().time() < 1

    run_virtually(scenario())


def test_virtual_time_takes_no_time_and_is_exact() -> None:
    async def scenario() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run_virtually(scenario()) == pytest.approx(86_400)
