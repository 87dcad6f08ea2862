"""How many events a second go into PostgreSQL, beside the least that PostgreSQL itself needs for them.

The server is started for the measurement, with fsync. The floor is written by hand: the same table with the same
indexes, the same statement, one connection per writer, and nothing else: no runs, no locks, no fences, no duplicates,
nobody told. Both take turns in the same run. An append waits for the disk, so the clock on the wall is what counts.
"""

import asyncio
import statistics
import time
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from bench.report import Report, milliseconds
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.stores.postgres import PostgresStore
from podium.testing.events import NOON, event, new_run
from services import postgres
from services.missing import ServiceMissing

_ROUNDS = 5
_CONNECTIONS = 4
_BATCHES = 25
_BATCH = 100
_EVENTS = _CONNECTIONS * _BATCHES * _BATCH
_SINGLE_APPENDS = 300

_INSERT = """
INSERT INTO podium.events (run, run_seq, persisted_at, event_id, event_type, step_id, logical_attempt_id,
                           engine_attempt_id, idempotency_key, emitted_at, payload)
SELECT %s::bigint, %s::bigint + place, %s::text, event_id::uuid, event_type, step_id, logical, engine, key,
       emitted, payload
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::int[], %b::int[], %b::bytea[], %b::text[], %b::bytea[])
       WITH ORDINALITY AS w (event_id, event_type, step_id, logical, engine, key, emitted, payload, place)
"""

Batches = list[list[EventWrite]]


def run(report: Report) -> None:
    report.section(
        f"PostgreSQL, fsync on: batches of {_BATCH}, {_CONNECTIONS} connections, median of {_ROUNDS}"
    )
    try:
        with postgres.start(fsync=True) as server:
            asyncio.run(_measure(report, server.conninfo))
    except ServiceMissing as missing:
        report.figure("not measured", str(missing))


async def _measure(report: Report, conninfo: str) -> None:
    store = await PostgresStore.open(conninfo, connections=_CONNECTIONS)
    raw = [await AsyncConnection.connect(conninfo, autocommit=True) for _ in range(_CONNECTIONS)]
    ours, floor = [], []
    for number in range(_ROUNDS + 1):
        if number % 2:
            ours.append(await _appends(store, f"a{number}"))
            floor.append(await _inserts(raw, number))
        else:
            floor.append(await _inserts(raw, number))
            ours.append(await _appends(store, f"a{number}"))
    # The first round prepared the statements and filled the caches.
    rates, floors = ([_EVENTS / seconds for seconds in times[1:]] for times in (ours, floor))
    report.figure("floor, events/s", f"{statistics.median(floors):,.0f}")
    report.goal("Podium", statistics.median(rates), at_least=20_000, unit="events/s", decides=False)
    pairs = [rate / limit for rate, limit in zip(rates, floors, strict=True)]
    report.goal("Podium / floor", statistics.median(pairs), at_least=0.4)
    await _alone(report, store)
    for connection in raw:
        await connection.close()
    await store.close()


async def _appends(store: PostgresStore, name: str) -> float:
    """Seconds for all batches; every writer has a run of its own, as every driver has."""
    runs = [f"{name}-{writer}" for writer in range(_CONNECTIONS)]
    fences = [await _started(store, run) for run in runs]
    work = [_batches(run) for run in runs]

    async def write(run: str, fence: Fence, batches: Batches) -> None:
        for batch in batches:
            await store.append(RunId(run), batch, fence=fence)

    began = time.perf_counter()
    await asyncio.gather(*map(write, runs, fences, work))
    return time.perf_counter() - began


async def _inserts(raw: list[AsyncConnection[Any]], number: int) -> float:
    work = [_batches(f"raw{number}-{writer}") for writer in range(_CONNECTIONS)]

    async def write(connection: AsyncConnection[Any], writer: int, batches: Batches) -> None:
        # No run has such a number, so the rows disturb nobody.
        run = -1 - number * _CONNECTIONS - writer
        for place, batch in enumerate(batches):
            await connection.execute(_INSERT, [run, place * _BATCH, NOON, *_columns(batch)])

    began = time.perf_counter()
    await asyncio.gather(*map(write, raw, range(_CONNECTIONS), work))
    return time.perf_counter() - began


async def _alone(report: Report, store: PostgresStore) -> None:
    fence = await _started(store, "alone")
    seconds = []
    for number in range(_SINGLE_APPENDS):
        write = event("alone", "StepStarted", f"s{number}")
        began = time.perf_counter()
        await store.append(RunId("alone"), [write], fence=fence)
        seconds.append(time.perf_counter() - began)
    seconds.sort()
    report.figure("one event alone, median", milliseconds(statistics.median(seconds)))
    p99 = seconds[len(seconds) * 99 // 100] * 1e3
    report.goal("one event alone, p99", p99, at_most=10, unit="ms", decides=False)


async def _started(store: PostgresStore, run: str) -> Fence:
    await store.create_run(new_run(run), [event(run, "RunQueued")])
    lease = await store.claim(RunId(run), owner="bench", ttl=timedelta(hours=1))
    assert lease is not None
    await store.append(RunId(run), [event(run, "RunStarted")], fence=lease.fence)
    return lease.fence


def _batches(run: str) -> Batches:
    """Made before the clock starts: events of about 300 bytes, as a step's completion is."""
    return [
        [
            event(run, "StepCompleted", f"step {batch}/{place}", output="x" * 200, exitCode=0)
            for place in range(_BATCH)
        ]
        for batch in range(_BATCHES)
    ]


def _columns(batch: list[EventWrite]) -> list[list[Any]]:
    return [
        [write.event_id for write in batch],
        [write.event_type for write in batch],
        [write.step_id for write in batch],
        [write.logical_attempt_id for write in batch],
        [write.engine_attempt_id for write in batch],
        [bytes.fromhex(write.idempotency_key) for write in batch],
        [write.emitted_at for write in batch],
        [write.payload for write in batch],
    ]
