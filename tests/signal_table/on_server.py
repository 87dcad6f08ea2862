"""Tries the whole table on a server, in a process of its own: a client library may abort it at its exit.

    python -m tests.signal_table.on_server STORE RUNS WORKSPACE --engine conductor --url URL --queue QUEUE

Asks on its output for the worker to be stopped and started, and waits for a line of input each time. The last line is
the number of cells that were tried, or what went wrong.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.wiring.server_engines import server_engine
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts
from tests.engines.starter import Connection, connection_to
from tests.signal_table.cells import Cell, cells
from tests.signal_table.expected import OWN, STATES
from tests.signal_table.runs import Runs
from tests.signal_table.trying import OTHER_TENANT, TENANT, Trial, parts_of, setup_access

STOP, START = "stop worker", "start worker"
# Runs that are under way at the same time.
_TOGETHER = 8
# A server on a busy machine does not answer every request in time; starting an execution twice starts it once.
_TRIES = 5


async def try_all(url: str, folder: Path, workspace: Path, connection: Connection) -> int:
    store = await open_store(url, create=True)
    engine, access = server_engine(store, folder, url, connection, shared_runs=False), setup_access()
    parts = use_case_parts(store, folder, _say, engine=lambda: engine)
    parts = msgspec.structs.replace(parts, access=lambda: access)

    async def begin(run_id: RunId) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                await engine.begin(run_id)
                return
            except PodiumError:
                if not tries_left:
                    raise

    runs = Runs(parts, workspace, begin)
    trial = Trial(runs)
    await _try_approved(runs, trial)
    chosen = [cell for state in STATES if state != "approved" for cell in cells(state)]
    await _together(
        [*_refused(trial, chosen), *(trial.accepted(cell) for cell in chosen if cell.is_accepted)]
    )
    await trial.check_audit()
    return len(trial.tried)


async def _try_approved(runs: Runs, trial: Trial) -> None:
    """A worker starts what has been approved, so these are signalled while there is none."""
    chosen = list(cells("approved"))
    refused = _shares(chosen)
    accepted = [cell for cell in chosen if cell.is_accepted]
    runs_of_refused = [await runs.create("approved", _tenant(part[0])) for part in refused]
    runs_of_accepted = [await runs.create("approved", _tenant(cell)) for cell in accepted]
    await _ask(STOP)
    for run_id in (*runs_of_refused, *runs_of_accepted):
        await runs.send(run_id, "APPROVE", planSha256=await runs.plan_of(run_id))
    for run_id, part in zip(runs_of_refused, refused, strict=True):
        await trial.refused_on(run_id, part)
    sent = [await trial.send(run_id, one) for run_id, one in zip(runs_of_accepted, accepted, strict=True)]
    await _ask(START)
    await _together([trial.check_effect(one) for one in sent])


def _refused(trial: Trial, chosen: Iterable[Cell]) -> list[Coroutine[Any, Any, None]]:
    return [trial.refused_of_one(part, _tenant(part[0])) for part in _shares(chosen)]


def _shares(chosen: Iterable[Cell]) -> list[Sequence[Cell]]:
    """Refused cells that share a run."""
    refused = [cell for cell in chosen if not cell.is_accepted]
    found: list[Sequence[Cell]] = []
    for state in STATES:
        of_state = [cell for cell in refused if cell.state == state]
        found += parts_of([cell for cell in of_state if cell.tenant == OWN])
        others = [cell for cell in of_state if cell.tenant != OWN]
        found += [others] if others else []
    return found


def _tenant(cell: Cell) -> str:
    return TENANT if cell.tenant == OWN else OTHER_TENANT


async def _together(work: list[Coroutine[Any, Any, None]]) -> None:
    room = asyncio.Semaphore(_TOGETHER)

    async def one(part: Coroutine[Any, Any, None]) -> None:
        async with room:
            await part

    await asyncio.gather(*map(one, work))


async def _ask(what: str) -> None:
    print(what, flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main(url: str, runs: str, workspace: str, *place: str) -> None:
    connection = connection_to(list(place))
    try:
        print(asyncio.run(try_all(url, Path(runs), Path(workspace), connection)), flush=True)
    except BaseException:
        print(repr(traceback.format_exc()[-6000:]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(0)
