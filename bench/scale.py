"""Large runs through the real engine: what an event costs at the end of a run, and how much memory it takes.

`python -m bench.scale` measures the full sizes, `--items 500000` a million events, `python -m bench` smaller ones. Each
case runs in a process of its own, so that its memory is its own. What is compared is the time of the processor, not of
the clock on the wall: the writer of the store and the loop together, in the first and in the last tenth of the events,
each by the median of its parts, because neighbours on the machine are felt even so.
"""

import argparse
import asyncio
import gc
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.report import Report, microseconds
from podium.engines.local import LocalEngine
from podium.expressions.types import Data, Reference
from podium.log.events import EventRecord
from podium.plan.loading import plan_of
from podium.plan.plan import Block, ForEach, Plan, Python, Step, Workflow
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore
from podium.wiring.artifacts import payload_store
from podium.wiring.stores import system_clock

_TENTHS: Final = 10
_GROWTH: Final = 1.5
_MEGABYTES: Final = 400
_NOTHING: Final = "bench:nothing"
_LIST: Final = "bench:items"


class Measured(msgspec.Struct):
    """What a case has taken: for each tenth of its events, how long the processor worked for one of them."""

    events: int
    seconds: float
    tenths: list[float]
    megabytes: float


def run(report: Report, items: int = 5_000, steps: int = 1_000) -> None:
    for name in _TITLES:
        size = steps if name == "graph" else items
        report.section(f"{_TITLES[name].format(size=size)}, with the real engine and store")
        measured = _in_a_process(name, size)
        report.figure("events", f"{measured.events:,}")
        report.figure("seconds", f"{measured.seconds:.1f} s")
        for number, cost in enumerate(measured.tenths, 1):
            report.figure(f"processor per event, tenth {number}", microseconds(cost))
        report.goal("last tenth / first", measured.tenths[-1] / measured.tenths[0], at_most=_GROWTH)
        report.goal("peak memory", measured.megabytes, at_most=_MEGABYTES, unit="MB")


_TITLES: Final = {
    "for_each": "for_each over {size:,} items, one after the other",
    "workers": "for_each over {size:,} items, 10 at once",
    "nested": "loops inside of a loop, {size:,} items in all, 10 at once",
    "graph": "a graph of {size:,} steps, up to 3 dependencies each",
}


# --- plans ----------------------------------------------------------------------------------------


def plan_named(name: str, size: int) -> Plan:
    if name == "graph":
        return plan_of(Workflow("bench", Block("graph", tuple(_graph(size))), max_parallel=16))
    inner = _inner_size(size)
    match name:
        case "for_each":
            loop = _for_each("list", _step("one"))
        case "workers":
            loop = _for_each("list", _step("one"), workers=10)
        case _:
            loop = _for_each("list", _for_each("inner", _step("one"), "each", workers=10))
            size //= inner
    lists = [Step(name, Python(_LIST, {"size": n})) for name, n in (("list", size), ("inner", inner))]
    return plan_of(Workflow("bench", Block("implied", (*lists, loop))))


def _inner_size(size: int) -> int:
    return min(1000, size // 10)


def _for_each(items: str, step: Step, name: str = "loop", workers: int | None = None) -> Step:
    found: Data = Reference(("steps", items, "json"))
    return Step(
        name, ForEach(found, Block("branch", (step,)), parallel=workers is not None, max_workers=workers)
    )


def _step(name: str, **facts: Any) -> Step:
    return Step(name, Python(_NOTHING), **facts)


def _graph(size: int) -> Iterator[Step]:
    """Each step waits for up to three of the hundred before it, drawn from a seed."""
    dice = random.Random(7)
    for number in range(size):
        known = range(max(0, number - 100), number)
        needs = sorted(dice.sample(known, min(3, len(known))))
        yield _step(f"s{number}", depends_on=tuple(f"s{other}" for other in needs))


# --- measuring ------------------------------------------------------------------------------------


@dataclass
class Watch:
    """An observer: notes what the processor has done at every so manieth event."""

    every: int
    marks: list[float] = field(default_factory=list)
    events: int = 0

    def __call__(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            self.events = record.run_seq
            if record.run_seq % self.every == 0:
                self.marks.append(time.process_time())

    def tenths(self) -> list[float]:
        """How long one event took, in each tenth; without what comes before the first mark and after the last."""
        between = [later - earlier for earlier, later in pairwise(self.marks)]
        size = len(between) / _TENTHS
        parts = [between[int(n * size) : int((n + 1) * size)] for n in range(_TENTHS)]
        return [statistics.median(part) / self.every for part in parts]


def measure(name: str, size: int, folder: Path) -> Measured:
    """Here and now; the memory is the peak of this process."""
    watch = Watch(size * 2 // (_TENTHS * 10))

    async def driven() -> float:
        store = await SqliteStore.open(folder / "podium.db")
        functions: dict[str, Callable[..., Any]] = {
            _NOTHING: lambda: None,
            _LIST: lambda size: list(range(size)),
        }
        engine = LocalEngine(store, system_clock(), folder, inline=functions, artifacts=payload_store)
        run_id = await engine.create(RunRequest(plan_named(name, size)))
        gc.collect()
        began = time.monotonic()
        ended = await engine.drive(run_id, observers=[watch])
        took = time.monotonic() - began
        await store.close()
        if ended.exit_code != 0:
            raise RuntimeError(f"{name} ended with {ended}")
        return took

    seconds = asyncio.run(driven())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(watch.events, seconds, watch.tenths(), peak)


def _in_a_process(name: str, size: int) -> Measured:
    folder = tempfile.mkdtemp(prefix="podium-scale-")
    try:
        command = [sys.executable, "-m", "bench.scale", "--case", name, "--size", str(size), "--in", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return msgspec.json.decode(done.stdout, type=Measured)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--items", type=int, default=100_000, help="of the loops")
    parser.add_argument("--steps", type=int, default=20_000, help="of the graph")
    parser.add_argument("--case", choices=sorted(_TITLES), help="one case, in this process")
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--in", dest="folder", type=Path, help="where the run of --case is kept")
    given = parser.parse_args()
    if given.case is not None:
        folder = given.folder or Path(tempfile.mkdtemp(prefix="podium-scale-"))
        print(msgspec.json.encode(measure(given.case, given.size, folder)).decode())
        return 0
    report = Report()
    report.machine()
    run(report, given.items, given.steps)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
