"""Every cell of the table of signals, on the local engine: a real store, real programs, runs driven in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.log.ids import RunId
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts
from tests.signal_table.cells import Cell, cells
from tests.signal_table.expected import STATES
from tests.signal_table.runs import Runs
from tests.signal_table.trying import Trial, setup_access

# Runs that are driven at the same time.
_TOGETHER = 12


@asynccontextmanager
async def local_trial(folder: Path) -> AsyncIterator[Trial]:
    store = await open_store(str(folder / "podium.db"), create=True)
    access = setup_access()
    parts = msgspec.structs.replace(use_case_parts(store, folder / "runs", print), access=lambda: access)
    driving: list[asyncio.Task[Any]] = []

    async def begin(run_id: RunId) -> None:
        driving.append(asyncio.create_task(parts.engine().drive(run_id)))

    try:
        yield Trial(Runs(parts, folder / "workspace", begin))
    finally:
        for task in driving:
            task.cancel()
        await asyncio.gather(*driving, return_exceptions=True)
        await store.close()


@pytest.mark.rule("G23", "G24", "G35", "G38")
@pytest.mark.parametrize("state", STATES)
def test_every_refusal_has_its_code_and_changes_nothing(state: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_trial(tmp_path) as trial:
            await trial.refused([cell for cell in cells(state) if not cell.is_accepted])
            await trial.check_audit()

    asyncio.run(scenario())


@pytest.mark.rule("G23", "G24", "G38")
@pytest.mark.parametrize("state", STATES)
def test_every_accepted_signal_is_recorded_and_does_what_it_is_for(state: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_trial(tmp_path) as trial:
            await together(trial.accepted, [cell for cell in cells(state) if cell.is_accepted])
            await trial.check_audit()

    asyncio.run(scenario())


async def together(try_out: Callable[[Cell], Coroutine[Any, Any, None]], chosen: list[Cell]) -> None:
    """Some at a time: a busy machine would otherwise only switch between them."""
    room = asyncio.Semaphore(_TOGETHER)

    async def one(cell: Cell) -> None:
        async with room:
            await try_out(cell)

    await asyncio.gather(*(one(cell) for cell in chosen))
