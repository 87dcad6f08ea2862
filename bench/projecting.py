"""From the log to what people see: reading, decoding and projecting, and how that grows with the run.

`python -m bench.projecting` measures logs of 1,000,000 events, `python -m bench` smaller ones. Two logs: 100 steps that
are visited again and again, and a loop in which every event is about another instance.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec

from bench.measure import processor_seconds
from bench.report import Report, milliseconds
from podium.log.events import EventRecord, EventWrite
from podium.log.fold import EMPTY, RunSnapshot, project_more
from podium.log.ids import RunId
from podium.runtime.alerts import Alerting
from podium.runtime.projecting import Projecting
from podium.stores.sqlite import SqliteStore
from podium.stores.sqlite.clock import BootClock
from podium.testing.events import event, new_run

QUICK: Final = 100_000
FULL: Final = 1_000_000
_RUN: Final = RunId("r1")
_BATCH: Final = 1000


def run(report: Report, events: int = QUICK) -> None:
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        for name, instances in (("100 steps visited again", 100), ("a new instance each time", events)):
            path = Path(folder) / f"{instances}.db"
            asyncio.run(_prepare(path, events, instances))
            report.section(f"A log of {events:,} events, {name}")
            asyncio.run(_reading(report, path, events))
            _growth(report, path, events)
            asyncio.run(_opening(report, path))


async def _prepare(path: Path, events: int, instances: int) -> None:
    """A run with so many events, stored as an import would."""
    store = await SqliteStore.open(path)
    await store.create_run(new_run(_RUN), list(_log(events, instances)))
    await store.close()


def _log(events: int, instances: int) -> Iterator[EventWrite]:
    yield event(_RUN, "RunQueued")
    yield event(_RUN, "RunStarted")
    for number in range((events - 2) // 2):
        step, attempt = f"Loop[{number % instances}]/Build Image", number // instances + 1
        yield event(_RUN, "StepStarted", step, attempt)
        yield event(_RUN, "StepCompleted", step, attempt, exitCode=0, durationMs=12, output="built")


async def _reading(report: Report, path: Path, events: int) -> None:
    """Ours against the least anybody pays who folds this log: the same rows, their payloads decoded, one dictionary."""
    store = await SqliteStore.open(path)

    async def ours() -> RunSnapshot:
        snapshot = EMPTY
        while records := await store.read(_RUN, after=snapshot.last_event_seq, limit=_BATCH):
            snapshot = project_more(snapshot, records)
        return snapshot

    rows = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)

    def floor() -> dict[str, tuple[str, int]]:
        steps: dict[str, tuple[str, int]] = {}
        decode = msgspec.json.Decoder().decode
        query = "SELECT run_seq, event_type, step_id, logical_attempt, emitted_at, payload FROM events ORDER BY rowid"
        for _seq, event_type, step_id, attempt, _at, payload in rows.execute(query):
            decode(payload)
            steps[step_id] = (event_type, attempt)
        return steps

    ours_seconds, floor_seconds = [], []
    for _ in range(3):
        # Of all threads: the store may read on another.
        started = time.process_time()
        await ours()
        ours_seconds.append(time.process_time() - started)
        floor_seconds.append(processor_seconds(floor))
    report.figure("a bare loop over the same rows", f"{events / min(floor_seconds):,.0f}/s")
    report.goal(
        "read, decoded and projected",
        events / min(ours_seconds),
        at_least=300_000,
        unit="events/s",
        decides=False,
    )
    report.goal("ours / the bare loop", min(ours_seconds) / min(floor_seconds), at_most=5.0)
    await store.close()
    rows.close()


def _growth(report: Report, path: Path, events: int) -> None:
    """One event per call: the last tenth of the log against the first."""
    records = asyncio.run(_all(path, events))
    snapshot, kept = EMPTY, []
    tenth = len(records) // 10

    def fold(part: list[EventRecord]) -> None:
        nonlocal snapshot
        for record in part:
            snapshot = project_more(snapshot, (record,))

    times = []
    for number in range(10):
        kept.append((snapshot.last_event_seq, snapshot.summary))
        part = records[number * tenth : (number + 1) * tenth]
        times.append(processor_seconds(partial(fold, part)) / tenth)
    report.figure("project_more, one event per call", f"{times[0] * 1e6:.1f} us")
    report.goal("last tenth / first tenth", times[-1] / times[0], at_most=1.5)
    if any(summary.last_event_seq != seq for seq, summary in kept):
        raise AssertionError("an earlier snapshot has changed")


async def _all(path: Path, events: int) -> list[EventRecord]:
    store = await SqliteStore.open(path)
    records = await store.read(_RUN, limit=events)
    await store.close()
    return records


async def _opening(report: Report, path: Path) -> None:
    """How long a person waits for the summary of a run whose snapshot is stored."""
    store = await SqliteStore.open(path)
    clock = BootClock()
    await Projecting(store, clock, Alerting(store, clock, lambda *_: None)).catch_up(_RUN)
    await store.close()
    store = await SqliteStore.open(path)
    loop = asyncio.get_running_loop()
    best = 1.0
    for _ in range(5):
        started = loop.time()
        if await store.load_summary(_RUN) is None:
            raise AssertionError("there is no snapshot")
        await store.load_steps(_RUN, limit=100)
        best = min(best, loop.time() - started)
    report.figure("its summary and 100 steps, from the snapshot", milliseconds(best))
    report.goal("the same", best * 1000, at_most=50, unit="ms")
    await store.close()


if __name__ == "__main__":
    shown = Report()
    run(shown, FULL)
    sys.exit(1 if shown.missed else 0)
