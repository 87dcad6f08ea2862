"""Signals are checked before they are accepted, and refusals do not fill the log."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from podium.errors import PodiumError, RunNotFound
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.operations.access import NotAllowed
from podium.operations.signal_decisions import SignalDuplicate
from podium.operations.signal_payloads import InvalidSignal
from podium.operations.signal_refusals import RunIsOver, SignalWouldBeIgnored, TooManySignals
from podium.operations.signals import (
    SentSignal,
)
from podium.operations.signals import send_signal as send_as
from podium.runtime.callers import Caller, reason_to_refuse
from podium.runtime.writing import new_event
from podium.stores.memory import MemoryStore
from podium.testing.access import owner
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import started
from tests.unit.driving.scripted import Scripted, memory
from tests.unit.machine.hosting import plan_of

ANN = Caller("ann", 1000)
HOSTILE = ("elsewhere", "a b", "", "x\0", "x\ud800", "x" * 100_000)
send_signal = partial(send_as, access=owner("ann"))
OWN = Caller("ann", 1000, runs=frozenset({"r"}))


async def a_run() -> tuple[MemoryStore, VirtualClock]:
    clock = VirtualClock()
    store = MemoryStore(clock)
    await started(store, "r")
    return store, clock


async def logged(store: MemoryStore, event_type: str) -> list[EventRecord]:
    return [one for one in await store.read(RunId("r")) if one.event_type == event_type]


async def audited(store: MemoryStore) -> list[tuple[str | None, str | None]]:
    contents = [msgspec.json.decode(one.content) for one in await store.read_audit("default")]
    return [(one.get("code"), one.get("signalId")) for one in contents]


@pytest.mark.rule("G27")
def test_the_id_of_a_signal_that_was_malformed_is_used_up_too() -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        send = partial(send_signal, store, clock, "default", "r", "PAUSE", caller=ANN, signal_id="s")
        with pytest.raises(InvalidSignal):
            await send({"raeson": "typo"})
        with pytest.raises(SignalDuplicate):
            await send({})
        assert await logged(store, "SignalAccepted") == []

    asyncio.run(scenario())


@pytest.mark.rule("G24")
def test_sixty_refusals_a_minute_are_recorded_and_a_cancel_is_still_possible() -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        for _ in range(70):
            with pytest.raises(NotAllowed):
                await send_signal(store, clock, "default", "r", "APPROVE", {}, caller=OWN)
        assert len(await logged(store, "SignalRejected")) == 60
        assert [code for code, _ in await audited(store)] == ["AUTHZ_DENIED"] * 70
        await send_signal(store, clock, "default", "r", "CANCEL", {}, caller=ANN)
        clock.move(61)
        with pytest.raises(NotAllowed):
            await send_signal(store, clock, "default", "r", "APPROVE", {}, caller=OWN)
        assert len(await logged(store, "SignalRejected")) == 61

    asyncio.run(scenario())


@pytest.mark.rule("G27")
def test_of_two_answers_to_one_question_at_the_same_time_the_second_is_refused() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of("steps: [{name: Ask, approval: {message: Go?}}]"), memory()).create()
        driving = asyncio.create_task(run.drive())
        while not any(one.event_type == EventType.STEP_STARTED for one in await run.log()):
            await asyncio.sleep(0.01)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        send = partial(
            send_signal, run.store, VirtualClock(), "default", run.run_id, plan=run.plan, caller=ANN
        )
        answers = await asyncio.gather(send("APPROVE", {}), send("REJECT", {}), return_exceptions=True)
        assert [type(one) for one in answers] == [SentSignal, SignalWouldBeIgnored]
        accepted = [one for one in await run.log() if one.event_type == EventType.SIGNAL_ACCEPTED]
        assert len(accepted) == 1

    asyncio.run(scenario())


@pytest.mark.rule("G24")
def test_sixty_signals_a_minute_are_accepted() -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        for _ in range(60):
            await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN)
        clock.move(20)
        with pytest.raises(TooManySignals, match="try again in 41 seconds") as refused:
            await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN, signal_id="late")
        assert refused.value.retry_after_seconds == 41
        assert (await audited(store))[-1] == ("SIGNAL_RATE_LIMITED", "late")
        await send_signal(store, clock, "default", "r", "CANCEL", {}, caller=ANN)
        clock.move(refused.value.retry_after_seconds)
        # It was not decided about: its id may be used again.
        sent = await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN, signal_id="late")
        assert not sent.duplicate

    asyncio.run(scenario())


def test_signals_are_counted_however_much_a_run_records_in_between() -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        identity = (await store.get_run(RunId("r"))).identity
        for number in range(60):
            await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN)
            alerts = [
                new_event(
                    identity, EventType.ALERT_RAISED, timestamp(clock.now()), subject=f"X:{number}:{one}"
                )
                for one in range(50)
            ]
            await store.append(RunId("r"), alerts)
        with pytest.raises(TooManySignals):
            await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("signal", "payload"),
    [
        ("PAUSE", {"raeson": "x"}),
        ("PAUSE", {"reason": 3}),
        ("RESUME", {"reason": "x"}),
        ("APPROVE", {"by": "the boss"}),
        ("APPROVE", {"form": ["x"]}),
        ("APPROVE", {"form": {"x": "y" * 70_000}}),
        ("CANCEL", {"reason": "x" * 501}),
        ("PAUSE", {"reason": "x" * 501}),
        ("EMERGENCY_STOP", {"reason": "x" * 1001}),
        ("EMERGENCY_STOP", {"reason": ""}),
        ("EMERGENCY_STOP", {}),
        ("DANCE", {}),
    ],
)
def test_a_signal_with_what_it_should_not_carry_is_refused(signal: str, payload: dict[str, Any]) -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        with pytest.raises(PodiumError) as refused:
            await send_signal(store, clock, "default", "r", signal, payload, caller=ANN)
        assert refused.value.code == "SIGNAL_INVALID_PAYLOAD"
        assert await logged(store, "SignalAccepted") == []
        (one,) = await logged(store, "SignalRejected")
        assert b'"code":"SIGNAL_INVALID_PAYLOAD"' in one.payload
        assert len(one.payload) < 2000

    asyncio.run(scenario())


def test_a_caller_belongs_to_a_run_by_its_environment_only_if_it_names_that_run() -> None:
    assert reason_to_refuse(OWN, "r", None)
    assert reason_to_refuse(OWN, "r2", None) is None
    assert reason_to_refuse(ANN, "r", "some:other:owner") is None


@pytest.mark.parametrize(
    ("signal_type", "longest"), [("PAUSE", 500), ("CANCEL", 500), ("EMERGENCY_STOP", 1000)]
)
def test_the_longest_reason_of_a_signal_is_accepted(signal_type: str, longest: int) -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        await send_signal(
            store, clock, "default", "r", signal_type, {"reason": "\u00fc" * longest}, caller=ANN
        )
        assert len(await logged(store, "SignalAccepted")) == 1

    asyncio.run(scenario())


class StoreOfAnEndingRun(MemoryStore):
    """The run ends right before a signal is appended."""

    async def append(self, run_id: Any, writes: Any, **options: Any) -> Any:
        if writes[0].event_type == EventType.SIGNAL_ACCEPTED:
            lease = await self.claim(run_id, owner="driver", ttl=timedelta(seconds=30))
            if lease is not None:
                identity = (await self.get_run(run_id)).identity
                end = new_event(identity, EventType.RUN_COMPLETED, timestamp(datetime.now(UTC)))
                await super().append(run_id, [end], fence=lease.fence)
        return await super().append(run_id, writes, **options)


@pytest.mark.parametrize("signal", ["PAUSE", "CANCEL"])
def test_a_signal_to_a_run_that_ends_at_that_moment_is_not_recorded_as_accepted(signal: str) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store = StoreOfAnEndingRun(clock)
        await store.release(await started(store, "r"))
        with pytest.raises(RunIsOver):
            await send_signal(store, clock, "default", "r", signal, {}, caller=ANN)
        assert await logged(store, "SignalAccepted") == []
        assert len(await logged(store, "SignalRejected")) == 1

    asyncio.run(scenario())


@pytest.mark.rule("G35")
@pytest.mark.parametrize("signal", ["PAUSE", "SKIP_STEP"])
def test_whatever_is_asked_for_that_is_not_there_is_not_found_and_audited(signal: str) -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        payload = {"stepId": "A"} if signal == "SKIP_STEP" else {}
        for tenant, run_id in itertools.product(HOSTILE, HOSTILE):
            with pytest.raises(RunNotFound):
                await send_signal(store, clock, tenant, run_id, signal, payload, caller=ANN)
        assert set(await store.audit_tenants()) <= {"default", "elsewhere"}
        records = await store.read_audit("default") + await store.read_audit("elsewhere")
        assert len(records) == len(HOSTILE) ** 2
        assert all(len(one.content) < 3000 for one in records)

    asyncio.run(scenario())


def test_a_run_that_has_not_started_is_not_paused() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of("steps: [{name: A, command: [tool]}]"), memory()).create()
        for signal in ("PAUSE", "RESUME"):
            with pytest.raises(SignalWouldBeIgnored, match="has not started"):
                await send_signal(run.store, VirtualClock(), "default", run.run_id, signal, {}, caller=ANN)

    asyncio.run(scenario())
