"""A signal for a run that another engine carries is stored together with a wake-up: a nudge can be lost."""

import asyncio
from pathlib import Path

import pytest

from podium.log.engines import TemporalRunRef
from podium.log.events import EventType, encode_payload
from podium.machine.following import is_signal_wake_up, signal_wake_up
from podium.runtime.signalling import append_while_open
from podium.runtime.writing import new_event
from tests.unit.runtime.working import Worked, started_run
from tests.unit.tasks.engine import sh

_LATER = "2999-01-01T00:00:00.000000Z"


async def _signal(run: Worked) -> None:
    identity = (await run.store.get_run(run.run_id)).identity
    payload = {"signalId": "s1", "signalType": "PAUSE", "payload": {}}
    write = new_event(
        identity, EventType.SIGNAL_ACCEPTED, run.parts.now(), encode_payload(payload), subject="s1"
    )
    assert await append_while_open(run.store, run.run_id, write)


async def _wake_ups(run: Worked) -> list[str]:
    return [one.key for one in await run.store.due(_LATER, limit=10)]


@pytest.mark.rule("G42")
def test_a_signal_for_another_engine_is_stored_with_a_wake_up_that_is_due_immediately(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            engine = TemporalRunRef(namespace="default", workflow_id="podium-x", run_id=run.run_id)
            await run.store.set_engine(run.run_id, engine, fence=run.lease.fence)
            await _signal(run)
            (wake_up,) = await run.store.due(run.parts.now(), limit=10, provider="temporal")
            assert (wake_up.run_id, wake_up.key) == (run.run_id, signal_wake_up("s1"))
            assert is_signal_wake_up(wake_up.key)

    asyncio.run(test())


@pytest.mark.rule("G42")
def test_a_driver_looks_for_signals_by_itself(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            await _signal(run)
            assert await _wake_ups(run) == []

    asyncio.run(test())
