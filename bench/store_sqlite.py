"""Appending to the SQLite store, against what anybody would have to pay who keeps events in SQLite.

`python -m bench.store_sqlite` measures all of it (some minutes); `--quick`, and `python -m bench`, a smaller part.

A durable commit waits for the disk, so time here is that of the clock on the wall, and contestants take turns in short
rounds: a disk that is busy for a moment is busy for all of them.
"""

import argparse
import asyncio
import queue
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from bench.report import Report, microseconds
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event
from podium.testing.store_promises import started

_ROUNDS: Final = 40
_APPENDS_PER_ROUND: Final = 25
_CALLERS: Final = 200
_GROUP_ROUNDS: Final = 8
_APPENDS_PER_CALLER: Final = 5
_WATCHERS: Final = 10
_NOW: Final = "2026-01-01T12:00:00.000000Z"

# An append on our tables as one writes it oneself: what has to be read, and what has to be written.
_RUN: Final = (
    "SELECT number, status, head, EXISTS (SELECT 1 FROM buses), "
    "(SELECT generation FROM leases WHERE run = number AND attempt = (SELECT ?) AND owner <> ''), "
    "EXISTS (SELECT 1 FROM events WHERE run = number AND key = ?), "
    "run_id, tenant_id, project_id, environment_id, plan_id, plan_version FROM runs WHERE run_id = ?"
)
_EVENT_BY_KEY: Final = (
    "SELECT run_seq, event_id, event_type, step_id, logical_attempt, engine_attempt, key, emitted_at, persisted_at, "
    "payload FROM events WHERE run = ? AND key = ?"
)
_INSERT_EVENT: Final = (
    "INSERT INTO events (run, run_seq, key, event_id, event_type, step_id, logical_attempt, engine_attempt, "
    "emitted_at, persisted_at, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MOVE_HEAD: Final = "UPDATE runs SET head = ?, updated_at = ? WHERE number = ?"


class Size(NamedTuple):
    events_before: int
    events_while_watched: int


QUICK: Final = Size(100_000, 50_000)
FULL: Final = Size(1_000_000, 1_000_000)


def run(report: Report, size: Size = QUICK) -> None:
    folder = Path(tempfile.mkdtemp(prefix="podium-bench-"))
    try:
        empty, large = folder / "empty", folder / "large"
        asyncio.run(_prepare(empty, 0))
        _one_caller(report, empty, folder, "an empty file")
        asyncio.run(_prepare(large, size.events_before))
        _one_caller(report, large, folder, f"a file with {size.events_before:,} events")
        _many_callers(report, empty, folder)
        _watched(report, empty, folder, size.events_while_watched)
    finally:
        shutil.rmtree(folder)


# --- one caller -----------------------------------------------------------------------------------


def _one_caller(report: Report, source: Path, folder: Path, what: str) -> None:
    report.section(f"SQLite: one caller, one event a call, {what}")
    bare = _BareTable(folder / "bare.db")
    only_writes = _ByHand(_copied(source, folder / "only-writes"), only_writes=True)
    ours = _ByHand(_copied(source, folder / "by-hand"))
    store = _Store(_copied(source, folder / "store"))
    two_by_hand = _ByHand(_copied(source, folder / "two-by-hand"), events=2)
    two = _Store(_copied(source, folder / "two"), events=2)
    contestants: dict[str, Callable[[int], None]] = {
        "bare: one JSON event, one commit": bare.append,
        "by hand, only the writes": only_writes.append,
        "by hand, reads and writes": ours.append,
        "SqliteStore.append": store.append,
        "by hand, two events a call": two_by_hand.append,
        "SqliteStore.append, two events a call": two.append,
    }
    times = _take_turns(contestants)
    for name in contestants:
        report.figure(name, microseconds(statistics.median(times[name])))
    slow = sorted(times["SqliteStore.append"])
    report.figure("SqliteStore.append, slowest round", microseconds(slow[-1]))
    report.goal(
        "store / by hand", _ratio(times, "SqliteStore.append", "by hand, reads and writes"), at_most=1.4
    )
    report.goal(
        "store / bare", _ratio(times, "SqliteStore.append", "bare: one JSON event, one commit"), at_most=2
    )
    only_writes_ratio = _ratio(times, "SqliteStore.append", "by hand, only the writes")
    report.figure("store / by hand, only the writes", f"{only_writes_ratio:.2f} x")
    report.goal(
        "two events: store / by hand",
        _ratio(times, "SqliteStore.append, two events a call", "by hand, two events a call"),
        at_most=1.4,
        decides=False,
    )
    for one in (bare, only_writes, ours, two_by_hand, store, two):
        one.close()
    for name in ("only-writes", "by-hand", "store", "two-by-hand", "two"):
        shutil.rmtree(folder / name)
    (folder / "bare.db").unlink()


def _take_turns(contestants: dict[str, Callable[[int], None]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    turn = list(contestants)
    for append in contestants.values():
        append(_APPENDS_PER_ROUND)
    for _ in range(_ROUNDS):
        for name in turn:
            began = time.perf_counter()
            contestants[name](_APPENDS_PER_ROUND)
            times[name].append((time.perf_counter() - began) / _APPENDS_PER_ROUND)
        turn.reverse()
    return times


def _ratio(times: dict[str, list[float]], name: str, other: str) -> float:
    return statistics.median(ours / theirs for ours, theirs in zip(times[name], times[other], strict=True))


class _BareTable:
    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))
        self._db.execute("PRAGMA journal_mode = WAL").fetchall()
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE events (body BLOB)")
        # The others begin with a write-ahead log of its usual size, too: growing it is what costs most.
        self._db.execute("INSERT INTO events VALUES (zeroblob(6000000))")
        self._event = event("r1", "StepCompleted", "a", output="x" * 200)

    def append(self, times: int) -> None:
        for _ in range(times):
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT INTO events VALUES (?)", (msgspec.json.encode(self._event),))
            self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


class _ByHand:
    """An append on our tables in a plain loop, each event read for and written; or only the two writes.

    Somebody who knows that nobody else writes, and that nothing is ever repeated or taken over, needs only those two.
    """

    def __init__(self, folder: Path, events: int = 1, *, only_writes: bool = False) -> None:
        self._db = _connected(folder / "podium.db")
        _grow_wal(self._db)
        self._number, self._head = self._db.execute("SELECT number, head FROM runs WHERE run_id = 'r1'").get
        self._rows = _rows(_writes("r1", (_ROUNDS + 1) * _APPENDS_PER_ROUND * events))
        self._events = events
        self._only_writes = only_writes
        self._next = 0

    def append(self, times: int) -> None:
        for _ in range(times):
            self._db.execute("BEGIN IMMEDIATE")
            rows = self._rows[self._next : self._next + self._events]
            if not self._only_writes:
                _look_up(self._db, "r1", self._number, rows)
            for _ in range(self._events):
                self._head += 1
                self._db.execute(_INSERT_EVENT, (self._number, self._head, *self._rows[self._next]))
                self._next += 1
            self._db.execute(_MOVE_HEAD, (self._head, _NOW, self._number))
            self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


def _look_up(db: apsw.Connection, run_id: str, number: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """What has to be read before one may write: the run, whether the keys are new, who holds the lease."""
    db.execute(_RUN, ("", rows[0][0], run_id)).fetchone()
    for row in rows[1:]:
        db.execute(_EVENT_BY_KEY, (number, row[0])).fetchone()


class _Store:
    def __init__(self, folder: Path, events: int = 1) -> None:
        self._loop = asyncio.new_event_loop()
        self._store = self._loop.run_until_complete(SqliteStore.open(folder / "podium.db"))
        self._loop.run_until_complete(self._store._writer.write(_grow_wal))
        writes = _writes("r1", (_ROUNDS + 1) * _APPENDS_PER_ROUND * events)
        self._batches = iter([writes[n : n + events] for n in range(0, len(writes), events)])

    def append(self, times: int) -> None:
        self._loop.run_until_complete(self._append(times))

    async def _append(self, times: int) -> None:
        for _ in range(times):
            await self._store.append(RunId("r1"), next(self._batches), fence=Fence(1))

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


# --- many callers ---------------------------------------------------------------------------------


def _many_callers(report: Report, source: Path, folder: Path) -> None:
    report.section(f"SQLite: {_CALLERS} callers at once, a run each, one event a call")
    contestants: dict[str, _GroupByHand | _GroupStore] = {
        "group commit by hand, only the writes": _GroupByHand(
            _copied(source, folder / "group-only-writes"), only_writes=True
        ),
        "group commit by hand, reads and writes": _GroupByHand(_copied(source, folder / "group-by-hand")),
        "SqliteStore.append": _GroupStore(_copied(source, folder / "group-store")),
        "SqliteStore.append, two events a call": _GroupStore(_copied(source, folder / "group-two"), events=2),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    turn = list(contestants)
    for number in range(_GROUP_ROUNDS):
        for name in turn:
            times[name].append(contestants[name].round(number))
        turn.reverse()
    for name, contestant in contestants.items():
        contestant.close()
        speed = _CALLERS * _APPENDS_PER_CALLER * contestant.events / statistics.median(times[name])
        report.figure(name, f"{speed:,.0f}/s")
    by_hand = 100 / _ratio(times, "SqliteStore.append", "group commit by hand, reads and writes")
    report.goal("store, of the speed by hand", by_hand, at_least=70, unit="%")
    only_writes = 100 / _ratio(times, "SqliteStore.append", "group commit by hand, only the writes")
    report.figure("store, of the speed of only the writes", f"{only_writes:.0f} %")


class _GroupByHand:
    """What one writes oneself: a queue, a thread, a transaction for whatever waits, an answer after the COMMIT.

    It reads and writes the rows that the store does. It looks at nothing that it is given or reads, returns no records,
    takes no turns with other processes, and knows no refusals, watchers or callers that were cancelled.
    """

    def __init__(self, folder: Path, *, only_writes: bool = False) -> None:
        self.events = 1
        self._only_writes = only_writes
        self._db = _connected(folder / "podium.db")
        runs = self._db.execute("SELECT run_id, number, head FROM runs WHERE run_id LIKE 'c%'").fetchall()
        self._runs: dict[Any, Any] = {run_id: [number, head] for run_id, number, head in runs}
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def round(self, turn: int) -> float:
        work = [(f"c{n}", _rows(_writes(f"c{n}", _APPENDS_PER_CALLER, turn))) for n in range(_CALLERS)]
        began = time.perf_counter()
        self._loop.run_until_complete(self._all(work))
        return time.perf_counter() - began

    async def _all(self, work: Sequence[Any]) -> None:
        async def caller(run_id: str, rows: Sequence[Any]) -> None:
            for row in rows:
                answer = self._loop.create_future()
                self._queue.put((run_id, row, answer))
                await answer

        await asyncio.gather(*(caller(*one) for one in work))

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty():
                batch.append(self._queue.get())
            self._db.execute("BEGIN IMMEDIATE")
            for run_id, row, _ in batch:
                run = self._runs[run_id]
                if not self._only_writes:
                    _look_up(self._db, run_id, run[0], [row])
                run[1] += 1
                self._db.execute(_INSERT_EVENT, (run[0], run[1], *row))
                self._db.execute(_MOVE_HEAD, (run[1], _NOW, run[0]))
            self._db.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._answer, batch)

    def _answer(self, batch: Sequence[Any]) -> None:
        for _, _, answer in batch:
            answer.set_result(None)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()
        self._loop.close()


class _GroupStore:
    def __init__(self, folder: Path, events: int = 1) -> None:
        self.events = events
        self._loop = asyncio.new_event_loop()
        self._store = self._loop.run_until_complete(SqliteStore.open(folder / "podium.db"))

    def round(self, turn: int) -> float:
        work = [
            (RunId(f"c{n}"), _writes(f"c{n}", _APPENDS_PER_CALLER * self.events, turn))
            for n in range(_CALLERS)
        ]
        began = time.perf_counter()
        self._loop.run_until_complete(self._all(work))
        return time.perf_counter() - began

    async def _all(self, work: Sequence[tuple[RunId, list[EventWrite]]]) -> None:
        async def caller(run_id: RunId, writes: Sequence[EventWrite]) -> None:
            for n in range(0, len(writes), self.events):
                await self._store.append(run_id, writes[n : n + self.events], fence=Fence(1))

        await asyncio.gather(*(caller(*one) for one in work))

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


# --- watchers -------------------------------------------------------------------------------------


def _watched(report: Report, source: Path, folder: Path, events: int) -> None:
    report.section(f"SQLite: {events:,} events appended while {_WATCHERS} watch from another handle")
    path = _copied(source, folder / "watched") / "podium.db"
    seen, took = asyncio.run(_append_watched(path, events))
    report.figure("appended and watched", f"{events / took:,.0f}/s")
    report.goal("records not seen by a watcher", events - seen, at_most=0, unit="")
    size = path.with_name("podium.db-wal.size")
    report.goal("largest write-ahead log", float(size.read_text()) / 1e6, at_most=64, unit="MB")


async def _append_watched(path: Path, events: int) -> tuple[int, float]:
    store, other = await SqliteStore.open(path), await SqliteStore.open(path)
    seen = 0
    largest = 0

    async def watching(run_id: str) -> None:
        nonlocal seen
        async for records in other.watch(RunId(run_id), after=2):
            seen += len(records)

    watchers = [asyncio.create_task(watching(f"c{n}")) for n in range(_WATCHERS)]
    began = time.perf_counter()
    appended = number = 0
    while appended < events:
        run_id = f"c{number % _WATCHERS}"
        writes = _writes(run_id, 50, number)
        await store.append(RunId(run_id), writes, fence=Fence(1))
        largest = max(largest, path.with_name("podium.db-wal").stat().st_size)
        appended += len(writes)
        number += 1
    deadline = time.monotonic() + 10
    while seen < events and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    took = time.perf_counter() - began
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    await other.close()
    await store.close()
    path.with_name("podium.db-wal.size").write_text(str(largest))
    return seen, took


# --- what all of them start from ------------------------------------------------------------------


async def _prepare(folder: Path, events: int) -> None:
    """A database with started runs for everybody, and older runs with so many events."""
    store = await SqliteStore.open(folder / "podium.db")
    for name in ("r1", *(f"c{n}" for n in range(_CALLERS))):
        await started(store, name)
    await store.close()
    if events:
        _fill(_connected(folder / "podium.db", "OFF"), events)


def _fill(db: apsw.Connection, events: int) -> None:
    """Ended runs of a thousand events each, as appends would have left them."""
    runs = events // 1000
    with db:
        db.execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) "
            "INSERT INTO runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id, "
            "status, head, updated_at, created_at, priority, needs_approval, plan_sha256, inputs_sha256, metadata) "
            "SELECT 'old' || n, 'default', 'default', 'local', 'old', '1', 'old' || n, 'COMPLETED', 1000, ?2, ?2, 0, "
            "0, '', '', CAST('{}' AS BLOB) FROM n",
            (runs, _NOW),
        )
        db.execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) "
            "INSERT INTO events (run, run_seq, key, event_id, event_type, step_id, logical_attempt, engine_attempt, "
            "emitted_at, persisted_at, payload) SELECT r.number, n.n, randomblob(32), "
            "'00000000-0000-4000-8000-000000000000', 'StepCompleted', 'step-' || n.n, 1, 1, ?1, ?1, ?2 "
            "FROM runs r CROSS JOIN n WHERE r.plan_id = 'old'",
            (_NOW, b'{"output":"' + b"x" * 100 + b'"}'),
        )
    db.close()


def _grow_wal(db: apsw.Connection) -> None:
    """To the size it has in a store that is in use; a file that grows is slower to sync."""
    db.execute("CREATE TABLE grown (a)")
    db.execute("INSERT INTO grown VALUES (zeroblob(6000000))")


def _connected(path: Path, synchronous: str = "FULL") -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("PRAGMA cache_size = -32768")
    return db


def _copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def _writes(run_id: str, events: int, turn: int = 0) -> list[EventWrite]:
    return [event(run_id, "StepCompleted", f"{turn}/{n}", output="x" * 200) for n in range(events)]


def _rows(writes: Sequence[EventWrite]) -> list[tuple[Any, ...]]:
    return [
        (
            bytes.fromhex(write.idempotency_key),
            write.event_id,
            write.event_type,
            write.step_id,
            write.logical_attempt_id,
            write.engine_attempt_id,
            write.emitted_at,
            _NOW,
            write.payload,
        )
        for write in writes
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.store_sqlite", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller files")
    report = Report()
    report.machine()
    run(report, QUICK if parser.parse_args().quick else FULL)
    sys.exit(1 if report.missed else 0)
