"""A run that has completed is never taken up again."""

import asyncio
from pathlib import Path

import pytest

from podium.engines.local import LocalEngine
from podium.log.ids import RunId
from podium.runtime.reopening import RunEndedAlready
from podium.stores.sqlite import SqliteStore
from podium.stores.sqlite.clock import BootClock
from tests.unit.tasks.engine import run


@pytest.mark.rule("D31", "G51")
def test_a_completed_run_is_not_reopened(tmp_path: Path) -> None:
    ended = run(tmp_path, {"name": "A", "command": ["true"]})

    async def again() -> None:
        store = await SqliteStore.open(tmp_path / "runs" / "podium.db")
        try:
            engine = LocalEngine(store, BootClock(), tmp_path / "runs")
            await engine.drive(RunId(ended.run.run_id), reopen=ended.events[-1].run_seq)
        finally:
            await store.close()

    with pytest.raises(RunEndedAlready):
        asyncio.run(again())
