"""Every refused signal leaves a record in the audit log, whatever its sender puts into it."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.operations.access import NotAllowed
from podium.operations.signal_payloads import InvalidSignal
from podium.operations.signal_refusals import TooManySignals
from podium.operations.signals import send_signal as send_as
from podium.runtime.callers import Caller
from podium.stores.memory import MemoryStore
from podium.testing.access import owner
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import started

ANN = Caller("ann", 1000)
OWN = Caller("ann", 1000, runs=frozenset({"r"}))
send_signal = partial(send_as, access=owner("ann"))


async def a_run() -> tuple[MemoryStore, VirtualClock]:
    clock = VirtualClock()
    store = MemoryStore(clock)
    await started(store, "r")
    return store, clock


async def audited(store: MemoryStore) -> list[dict[str, Any]]:
    return [msgspec.json.decode(one.content) for one in await store.read_audit("default")]


def test_a_flood_of_refusals_hides_none_of_them_from_the_audit_log() -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        for number in range(70):
            with pytest.raises(NotAllowed):
                await send_signal(
                    store, clock, "default", "r", "APPROVE", {}, caller=OWN, signal_id=f"try-{number}"
                )
        refused = [one["signalId"] for one in await audited(store) if one["outcome"] == "REJECTED"]
        assert refused == [f"try-{number}" for number in range(70)]

    asyncio.run(scenario())


def test_a_signal_above_the_limit_is_in_the_audit_log() -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        for _ in range(60):
            await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN)
        with pytest.raises(TooManySignals):
            await send_signal(store, clock, "default", "r", "PAUSE", {}, caller=ANN, signal_id="late")
        last = (await audited(store))[-1]
        assert (last["signalId"], last["code"]) == ("late", "SIGNAL_RATE_LIMITED")

    asyncio.run(scenario())


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("signal_type", "payload"),
    [
        ("X" * 3_000_000, {}),
        ("PAU\ud800SE", {}),
        ("APPROVE", {"planSha256": "0" * 5_000_000}),
        ("APPROVE", {"planSha256": "\ud800" * 64}),
        ("PAUSE", {"reason": "half a character: \ud800"}),
        ("PAUSE", {"reason": "half a character: \ud800", "unknown": 1}),
        ("PAUSE", {"unknown \ud800": 1}),
        ("UPDATE_PARAMS", {"params": {"context": {"a": object()}}, "reason": "x"}),
        ("UPDATE_PARAMS", {"params": {"context": {"a": DEEP}}, "reason": "x"}),
        ("UPDATE_PARAMS", {"params": {"context": {"a": 10**400}}, "reason": "x"}),
    ],
    ids=range(10),
)
def test_what_cannot_be_recorded_as_it_was_sent_is_refused_and_recorded(
    signal_type: str, payload: dict[str, Any]
) -> None:
    async def scenario() -> None:
        store, clock = await a_run()
        with pytest.raises(InvalidSignal):
            await send_signal(store, clock, "default", "r", signal_type, payload, caller=ANN, signal_id="odd")
        assert [one["code"] for one in await audited(store)] == ["SIGNAL_INVALID_PAYLOAD"]
        last = (await store.read(RunId("r")))[-1]
        assert last.event_type == "SignalRejected"
        assert len(last.payload) < 2_000
        with pytest.raises(PodiumError):
            await send_signal(store, clock, "default", "nope", signal_type, payload, caller=ANN)
        assert len(await audited(store)) == 2

    asyncio.run(scenario())
