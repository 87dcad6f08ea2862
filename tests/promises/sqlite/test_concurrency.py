"""Sixteen writers in four processes, and one who reads along."""

import asyncio
import os
import time
from collections import defaultdict
from pathlib import Path

import apsw
import pytest

from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.store_promises import started
from tests.promises.sqlite import writing

PROCESSES = 4
# Two runs shared by all processes, and one of its own, with two writers, for every process.
SHARED = ("s0", "s1")
APPENDS = 250


def test_many_processes_append_in_order_without_losing_repeating_or_starving(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "podium.db"
    fences = asyncio.run(_prepared(path))
    slowest_commit = _slowest_bare_commit(tmp_path)
    stop_reading, stop = os.pipe()
    reader, seen_by_reader = writing.fork(lambda pipe: asyncio.run(_read_along(path, pipe, stop_reading)))
    writers = [
        writing.fork(
            lambda pipe, p=process: asyncio.run(  # type: ignore[misc]
                writing.append_timed(path, _runs_of(p, fences), f"p{p}", pipe, appends=APPENDS)
            )
        )
        for process in range(PROCESSES)
    ]
    said = [line for _, pipe in writers for line in writing.lines_of(pipe)]
    os.write(stop, b".")
    told_by_reader = writing.lines_of(seen_by_reader)
    for child, _ in [*writers, (reader, 0)]:
        os.waitpid(child, 0)
    os.close(stop)
    os.close(stop_reading)

    assert not [line for line in [*said, *told_by_reader] if line.startswith("!")]
    asyncio.run(_check(path, said))
    # The reader never saw a record before the one below it.
    assert told_by_reader[-1].startswith("in order")
    waits = sorted(float(line.split()[3]) for line in said)
    p99, longest = waits[len(waits) * 99 // 100], waits[-1]
    with capsys.disabled():
        print(
            f"\n{len(waits)} appends: p50 {waits[len(waits) // 2] * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
            f"longest {longest * 1e3:.1f} ms; slowest bare commit {slowest_commit * 1e3:.1f} ms; {told_by_reader[-1]}"
        )
    # The goal is one second. A machine on which a single commit of 200 stalls for long gets a multiple of that
    # stall instead, for it would show in any store: an append waits for at most the writers of three other
    # processes, its own, and one checkpoint.
    assert longest < max(1.0, 10 * slowest_commit)


def _runs_of(process: int, fences: dict[str, Fence]) -> list[tuple[str, Fence]]:
    """What the four writers of a process append to: two shared runs, and one of their own twice."""
    own = f"p{process}"
    return [(run_id, fences[run_id]) for run_id in (*SHARED, own, own)]


async def _prepared(path: Path) -> dict[str, Fence]:
    store = await SqliteStore.open(path)
    names = [*SHARED, *(f"p{process}" for process in range(PROCESSES))]
    fences = {name: (await started(store, name)).fence for name in names}
    await store.close()
    return fences


def _slowest_bare_commit(folder: Path) -> float:
    """What the disk alone takes at its worst, just before."""
    db = apsw.Connection(str(folder / "bare.db"))
    db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (a)").fetchall()
    slowest = 0.0
    for _ in range(200):
        began = time.monotonic()
        db.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT")
        slowest = max(slowest, time.monotonic() - began)
    db.close()
    return slowest


async def _read_along(path: Path, pipe: int, stop: int) -> None:
    """Read every run again and again from where it was left; anything out of order is told at once."""
    os.set_blocking(stop, False)
    store = await SqliteStore.open(path)
    names = [*SHARED, *(f"p{process}" for process in range(PROCESSES))]
    last: dict[str, int] = defaultdict(int)
    reads = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for name in names:
            for record in await store.read(RunId(name), after=last[name]):
                if record.run_seq != last[name] + 1:
                    os.write(pipe, f"! {name}: {record.run_seq} after {last[name]}\n".encode())
                last[name] = record.run_seq
            reads += 1
        await asyncio.sleep(0.002)
        if _told(stop):
            break
    os.write(pipe, f"in order: {sum(last.values())} records in {reads} reads\n".encode())


def _told(pipe: int) -> bool:
    try:
        return bool(os.read(pipe, 1))
    except BlockingIOError:
        return False


async def _check(path: Path, said: list[str]) -> None:
    store = await SqliteStore.open(path)
    answered: dict[str, dict[int, str]] = defaultdict(dict)
    for line in said:
        run_id, seq, event_id, _ = line.split()
        # A repeated event got the number of the first; no number was given to two events.
        assert answered[run_id].setdefault(int(seq), event_id) == event_id
    for run_id, events in answered.items():
        records = await store.read(RunId(run_id), limit=100_000)
        assert [record.run_seq for record in records] == list(range(1, len(records) + 1))
        assert len({record.idempotency_key for record in records}) == len(records)
        kept = {record.run_seq: record.event_id for record in records}
        assert all(kept[seq] == event_id for seq, event_id in events.items())
        assert len(kept) == len(events) + 2
    assert sum(map(len, answered.values())) == PROCESSES * 4 * APPENDS
    assert await store.problems() == []
    await store.close()
