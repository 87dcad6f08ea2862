"""How soon a killed run continues: from `podium resume` to its first new step, for a short and a long run.

`python -m bench.resuming` measures a run of a million events against one of a thousand, `python -m bench` shorter ones.
The run is killed after so many events by its own process, so that it leaves what a crash leaves: checkpoints that are
up to some thousand events old.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.report import Report, milliseconds
from podium.engines.local import LocalEngine
from podium.expressions.types import Reference
from podium.log.events import EventRecord
from podium.plan.loading import plan_of
from podium.plan.plan import Block, ForEach, Plan, Python, Step, Workflow
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore
from podium.wiring import payload_store, system_clock

_SHORT: Final = 1_000
_RATIO: Final = 2.0
_TIMES: Final = 3
_RUN: Final = "long"
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


def drive_and_die(events: int, folder: Path) -> None:
    """In a process of its own, which never returns."""

    def die(records: Sequence[EventRecord]) -> None:
        if records[-1].run_seq >= events:
            os.kill(os.getpid(), signal.SIGKILL)

    async def driven() -> None:
        store = await SqliteStore.open(folder / "podium.db")
        functions: dict[str, Callable[..., Any]] = {_NOTHING: nothing, _LIST: items}
        engine = LocalEngine(store, system_clock(), folder, inline=functions, artifacts=payload_store)
        request = RunRequest(_plan(events // 2 + 1000), run_id=_RUN, workspace=_ROOT)
        await engine.drive(await engine.create(request), observers=[die])

    asyncio.run(driven())


def _resumed_after(events: int) -> float:
    """Seconds to the first new step, the median of several resumes that are killed in their turn."""
    folder = Path(tempfile.mkdtemp(prefix="podium-resuming-"))
    try:
        made = [sys.executable, "-m", "bench.resuming", "--die-after", str(events), "--in", str(folder)]
        subprocess.run(made, cwd=_ROOT, check=False)
        return statistics.median(_first_step(folder) for _ in range(_TIMES))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_step(folder: Path) -> float:
    command = [sys.executable, "-m", "podium", "resume", _RUN, "--json"]
    environment = {**os.environ, "PODIUM_RUNS": str(folder), "PYTHONPATH": str(_ROOT)}
    began = time.monotonic()
    resumed = subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert resumed.stdout is not None
        for line in resumed.stdout:
            if b'"StepStarted"' in line:
                return time.monotonic() - began
        raise RuntimeError(f"nothing was started: exit code {resumed.wait()}")
    finally:
        os.killpg(resumed.pid, signal.SIGKILL)
        resumed.wait()
        if resumed.stdout is not None:
            resumed.stdout.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.resuming", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--die-after", type=int, help="drive a run, and die after so many events")
    parser.add_argument("--in", dest="folder", type=Path, help="where that run is kept")
    given = parser.parse_args()
    if given.die_after is not None:
        drive_and_die(given.die_after, given.folder)
        return 1
    report = Report()
    report.machine()
    run(report, given.events)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
