"""A process that stops waiting for a run leaves it free, at whatever moment it is cancelled."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from podium.engines.local import LocalEngine
from podium.log.leases import Lease
from podium.operations.workflows import load_workflow
from podium.ports.engine import RunRequest
from podium.stores.memory import MemoryStore
from podium.stores.sqlite.clock import BootClock

SOURCE = b'{"version": "2.0", "name": "w", "steps": [{"name": "A", "approval": {"message": "Go on?"}}]}'


class LosesAnswers(MemoryStore):
    """Never answers the first call of one kind: it makes a claim, but not a release, nevertheless."""

    def __init__(self, lost: str) -> None:
        super().__init__(BootClock())
        self._lost = lost
        self.is_waiting = asyncio.Event()

    async def claim(self, *args: Any, **options: Any) -> Lease | None:
        lease = await super().claim(*args, **options)
        await self._lose("claim")
        return lease

    async def release(self, lease: Lease) -> None:
        await self._lose("release")
        await super().release(lease)

    async def _lose(self, name: str) -> None:
        if name == self._lost:
            self._lost = ""
            self.is_waiting.set()
            await asyncio.Event().wait()


@pytest.mark.rule("G46")
@pytest.mark.parametrize("lost", ["claim", "release"])
def test_a_run_is_free_at_once_when_its_driver_was_cancelled_before_an_answer_about_its_lease(
    lost: str, tmp_path: Path
) -> None:
    async def cancelled_and_driven() -> tuple[bool, bool]:
        store = LosesAnswers(lost)
        engine = LocalEngine(store, BootClock(), tmp_path / "runs", lock_wait=timedelta())
        plan = load_workflow(SOURCE, "w.yaml", workspace=tmp_path).plan
        assert plan is not None
        run_id = await engine.create(RunRequest(plan, source=SOURCE, workspace=tmp_path))
        driving = asyncio.create_task(engine.drive(run_id, no_wait=True))
        await asyncio.wait_for(store.is_waiting.wait(), 30)
        held = await store.held_lease(run_id)
        driving.cancel()
        await asyncio.wait({driving})
        return held is not None, await store.held_lease(run_id) is not None

    assert asyncio.run(cancelled_and_driven()) == (True, False)
