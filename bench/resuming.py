"""How soon a killed run continues: from `podium resume` to its first new step, for a short and a long run.

`python -m bench.resuming` measures a run of a million events against one of a thousand, `python -m bench` shorter ones.
A run is killed after some events by its own process; then its log is made longer, as its driver would have written it.
The first resume replays that log and saves a checkpoint. It is killed, too, and the resumes after it are measured.
"""

import argparse
import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bench.report import Report, milliseconds
from podium.engines.local import LocalEngine
from podium.expressions.types import Reference
from podium.log.events import EventRecord, EventType, EventWrite
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.machine.commands import RunTask
from podium.plan.loading import plan_of
from podium.plan.plan import Block, ForEach, Plan, Python, Step, Workflow
from podium.ports.engine import RunRequest
from podium.runtime.machine_cache import CHECKPOINT_EVERY
from podium.runtime.plan_file import load_plan
from podium.runtime.replaying import replayed
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import values_of
from podium.runtime.writing import foreseen, new_event
from podium.stores.sqlite import SqliteStore
from podium.wiring.artifacts import payload_store
from podium.wiring.stores import system_clock

_SHORT: Final = 1_000
_RATIO: Final = 2.0
_TIMES: Final = 3
_RUN: Final = RunId("long")
# So many events are written by a real driver.
_DRIVEN: Final = 100
_BATCH: Final = 500
_ROOT: Final = Path(__file__).parent.parent
# As one process knows them and another one imports them.
_LIST: Final = "bench.resuming:items"
_NOTHING: Final = "bench.resuming:nothing"


def items(size: int) -> list[int]:
    return list(range(size))


def nothing() -> None:
    pass


def run(report: Report, events: int = 20_000) -> None:
    report.section(f"a killed run of {events:,} events, from `podium resume` to its first new step")
    short, long = _resumed_after(_SHORT), _resumed_after(events)
    report.figure(f"after {_SHORT:,} events", milliseconds(short))
    report.figure(f"after {events:,} events", milliseconds(long))
    report.goal("long / short", long / short, at_most=_RATIO)


def _plan(size: int) -> Plan:
    loop = ForEach(Reference(("steps", "list", "json")), Block("branch", (Step("one", Python(_NOTHING)),)))
    first = Step("list", Python(_LIST, {"size": size}))
    return plan_of(Workflow("bench", Block("implied", (first, Step("loop", loop)))))


def drive_and_die(size: int, folder: Path) -> None:
    """Begin a loop over so many items. In a process of its own, which never returns."""

    def die(records: Sequence[EventRecord]) -> None:
        if records[-1].run_seq >= _DRIVEN:
            os.kill(os.getpid(), signal.SIGKILL)

    async def driven() -> None:
        store = await SqliteStore.open(folder / "podium.db")
        functions: dict[str, Callable[..., Any]] = {_NOTHING: nothing, _LIST: items}
        engine = LocalEngine(store, system_clock(), folder, inline=functions, artifacts=payload_store)
        request = RunRequest(_plan(size), run_id=_RUN, workspace=_ROOT)
        await engine.drive(await engine.create(request), observers=[die])

    asyncio.run(driven())


def _resumed_after(events: int) -> float:
    """Seconds to the first new step, the median of several resumes that are killed in their turn."""
    folder = Path(tempfile.mkdtemp(prefix="podium-resuming-"))
    try:
        made = [sys.executable, "-m", "bench.resuming", "--items", str(events), "--in", str(folder)]
        subprocess.run(made, cwd=_ROOT, check=False)
        asyncio.run(_lengthen(folder, events))
        _first_step(folder, until=lambda: events < CHECKPOINT_EVERY or asyncio.run(_has_checkpoint(folder)))
        return statistics.median(_first_step(folder) for _ in range(_TIMES))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _lengthen(folder: Path, events: int) -> None:
    """Append what the driver would have appended."""
    store = await SqliteStore.open(folder / "podium.db")
    run = await store.get_run(_RUN)
    directory = RunDirectory(folder, _RUN)
    machine = await replayed(
        store, _RUN, await load_plan(store, directory, run), values_of(store, _RUN, directory, payload_store)
    )
    ends = [one for one in await store.read(_RUN) if one.step_id == "loop[0]/one"]
    held = await store.held_lease(_RUN)
    if held is not None:
        await store.release(held.lease)
    lease = await store.claim(_RUN, owner="bench", ttl=timedelta(hours=1))
    tasks = deque(one for one in machine.outstanding() if isinstance(one, RunTask))
    while machine.last_seq < events and lease is not None:
        writes: list[EventWrite] = []
        while len(writes) < _BATCH:
            task = tasks.popleft()
            for event_type in (EventType.STEP_STARTED, EventType.STEP_COMPLETED):
                if event_type == EventType.STEP_STARTED and machine.waits[task.path, task.attempt].started:
                    continue
                payload = ends[-1].payload if event_type == EventType.STEP_COMPLETED else b"{}"
                at = timestamp(system_clock().now())
                write = new_event(run.identity, event_type, at, payload, step_id=task.path)
                writes.append(write)
                record = foreseen(run.identity, write, machine.last_seq + 1, payload)
                tasks += [one for one in machine.advance(record) if isinstance(one, RunTask)]
        await store.append(_RUN, writes, fence=lease.fence)
    if lease is not None:
        await store.release(lease)
    await store.close()


async def _has_checkpoint(folder: Path) -> bool:
    store = await SqliteStore.open(folder / "podium.db")
    try:
        return await store.load_checkpoint(_RUN) is not None
    finally:
        await store.close()


def _first_step(folder: Path, until: Callable[[], bool] = lambda: True) -> float:
    """How long it took; what was resumed is killed as soon as the condition holds."""
    command = [sys.executable, "-m", "podium", "resume", _RUN, "--json"]
    environment = {**os.environ, "PODIUM_RUNS": str(folder), "PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}"}
    began = time.monotonic()
    resumed = subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert resumed.stdout is not None
        for line in resumed.stdout:
            if b'"StepStarted"' in line:
                took = time.monotonic() - began
                while not until():
                    time.sleep(0.1)
                return took
        raise RuntimeError(f"nothing was started: exit code {resumed.wait()}")
    finally:
        os.killpg(resumed.pid, signal.SIGKILL)
        resumed.wait()
        if resumed.stdout is not None:
            resumed.stdout.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.resuming", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, help="begin a loop over so many items, and die")
    parser.add_argument("--in", dest="folder", type=Path, help="where that run is kept")
    given = parser.parse_args()
    if given.items is not None:
        drive_and_die(given.items, given.folder)
        return 1
    report = Report()
    report.machine()
    run(report, given.events)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
