"""Cost follows the change, not the size: an event at the end of a long run costs what it cost at the beginning.

Counted are calls of functions and bytes written, through the real engine and store, and not seconds: a busy machine
changes nothing. `python -m bench.scale` measures the time of runs that are a hundred times as long.
"""

import asyncio
import gc
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from podium.engines.local import LocalEngine
from podium.language.workflow import read_workflow
from podium.log.events import EventRecord
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import BootClock, SqliteStore
from tests.promises.sqlite.disks import CountingDisk

_names = count()
NOTHING = "tests:nothing"
MAX_BYTES = 4 * 4096
AT_ONCE = "      parallel: true\n      max_workers: 10\n"


def _loop(size: int, more: str = "") -> str:
    head = f"steps:\n  - name: L\n    for_each:\n      items: {list(range(size))}\n{more}"
    return f"{head}      steps: [{{name: A, python: '{NOTHING}'}}]\n"


def _inner_loops(size: int) -> str:
    inner = f"{{name: M, for_each: {{items: {list(range(30))}, steps: [{{name: A, python: '{NOTHING}'}}]}}}}"
    return f"steps: [{{name: L, for_each: {{items: {list(range(size // 30))}, steps: [{inner}]}}}}]\n"


def _graph(size: int) -> str:
    """Up to three dependencies each, among the twenty steps before."""
    dice = random.Random(7)
    steps = []
    for number in range(size):
        known = range(max(0, number - 20), number)
        needs = [f"s{other}" for other in dice.sample(known, min(3, len(known)))]
        steps.append(f"  - {{name: s{number}, python: '{NOTHING}', depends_on: [{', '.join(needs)}]}}\n")
    return "steps:\n" + "".join(steps)


def _plan(text: str) -> Plan:
    plan = read_workflow(f'version: "2.0"\nname: test\n{text}'.encode(), "w.yaml").plan
    assert plan is not None
    return plan


@dataclass
class Counts:
    """An observer: what had been counted when each event was told of."""

    calls: int = 0
    marks: list[tuple[int, int, int]] = field(default_factory=list)
    disk: CountingDisk | None = None

    def __call__(self, records: Sequence[EventRecord]) -> None:
        written = self.disk.written if self.disk is not None else 0
        self.marks.append((records[-1].run_seq, self.calls, written))

    def count(self, _frame: Any, event: str, _what: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        threading.setprofile(self.count)
        sys.setprofile(self.count)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def per_event(self, first: float, last: float) -> tuple[float, float]:
        """Calls and bytes for one event, between two parts of the run."""
        end = self.marks[-1][0]
        earlier = next(mark for mark in self.marks if mark[0] >= first * end)
        later = next(mark for mark in self.marks if mark[0] >= last * end)
        events = later[0] - earlier[0]
        return (later[1] - earlier[1]) / events, (later[2] - earlier[2]) / events


def _drive(plan: Plan, folder: Path, observer: Callable[[Sequence[EventRecord]], None], disk: str) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(folder / "podium.db", vfs=disk)
        engine = LocalEngine(store, BootClock(), folder, inline={NOTHING: lambda: None})
        run_id = await engine.create(RunRequest(plan))
        ended = await engine.drive(run_id, observers=[observer])
        assert ended.exit_code == 0, ended
        await store.close()

    asyncio.run(scenario())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingDisk]:
    # How often this file is written depends on the time, and is limited by it: what it costs is shown elsewhere.
    monkeypatch.setattr("podium.runtime.state_file._SECONDS", 3600.0)
    disk = CountingDisk(f"counting{next(_names)}")
    yield disk
    disk.unregister()


LONG_RUNS = {
    "a loop": _loop(1500),
    "a loop at once": _loop(1500, AT_ONCE),
    "loops in a loop": _inner_loops(1500),
    "a graph": _graph(800),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LONG_RUNS)
def test_the_last_events_of_a_long_run_cost_what_the_first_ones_did(
    name: str, disk: CountingDisk, tmp_path: Path
) -> None:
    counts = Counts(disk=disk)
    with counts.counting():
        _drive(_plan(LONG_RUNS[name]), tmp_path, counts, disk.vfs_name)
    calls_first, bytes_first = counts.per_event(0.05, 0.2)
    calls_last, bytes_last = counts.per_event(0.83, 0.98)
    print(f"\n{name}: {calls_first:.0f} calls per event at first, {calls_last:.0f} at last; ", end="")
    print(f"{bytes_first:,.0f} bytes written at first, {bytes_last:,.0f} at last")
    assert calls_last < calls_first * 1.2
    # Each event has a place of its own in the index of keys, in a page that a short run shares with others.
    assert bytes_last < MAX_BYTES


@pytest.mark.timeout(300)
def test_a_long_loop_needs_no_more_memory_for_being_long(disk: CountingDisk, tmp_path: Path) -> None:
    """More than the iterations that `state.json` shows, so that old ones are let go."""
    kept: list[tuple[int, int]] = []

    def look(records: Sequence[EventRecord]) -> None:
        seq = records[-1].run_seq
        # Not at the end: then the file is written, and what was shown is there, too.
        if (len(kept) + 6) * 500 < seq < 15900:
            gc.collect()
            kept.append((seq, tracemalloc.get_traced_memory()[0]))

    plan = _plan(_loop(8000, AT_ONCE))
    tracemalloc.start()
    try:
        _drive(plan, tmp_path, look, disk.vfs_name)
    finally:
        tracemalloc.stop()
    (first_seq, first), (last_seq, last) = kept[0], kept[-1]
    per_item = (last - first) / (last_seq - first_seq) * 2
    print(f"\n{per_item:.1f} bytes are kept for an item; {first:,} at first")
    assert last_seq - first_seq > 12000
    # A text of one word would take as much, and a record ten times that. Caches that fill and empty are about
    # 100 kB at any moment: the loop is long enough that they are less than 20 bytes per item.
    assert per_item < 80
