"""Metrics for Prometheus: what waits in the store, and how long callers wait for the process itself.

The numbers of runs, workers and deliveries are limited to the tenants of the reader. Names that users chose
(pools, plans, tenants, buses) are in no label: sums are over all of them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from podium.errors import PodiumError, RunNotFound
from podium.log.ids import RunId
from podium.log.times import Timestamp, moment
from podium.operations.fleet import state_of
from podium.operations.parts import Parts
from podium.ports.metrics import (
    LOOP_LAG,
    OPEN_RUNS,
    OUTBOX_AGE,
    OUTBOX_DEAD,
    OUTBOX_WAITING,
    QUEUE_AGE,
    RUNS,
    SLOTS,
    STORE_CALLS,
    STREAMS,
    WORKERS,
)
from podium.ports.store import Store
from podium.ports.telemetry import Telemetry

MEASURE_SECONDS: Final = 5.0
_LAG_SECONDS: Final = 0.25
# Maximum number of runs with undelivered or dead events to examine: more would not make the numbers more
# alarming.
_MAX_LINES: Final = 1000
# Durable writes.
_TIMED: Final = frozenset({"append", "create_run", "start_attempt", "park", "renew_all", "claim_of_pool"})
_WORKER_STATES: Final = ("serving", "draining", "lost")


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    runs: dict[str, int]
    queue_age: float
    workers: dict[str, int]
    slots_used: int
    slots_free: int
    outbox_waiting: int
    outbox_age: float
    dead_letters: int


async def measure(parts: Parts, tenants: Sequence[str]) -> Numbers:
    """The numbers for these tenants. Raises `StoreUnavailable`."""
    loads = [load for tenant in tenants for load in await parts.store.pool_loads(tenant)]
    states = ("waiting", "delayed", "unapproved", "running", "parked", "left")
    workers = [
        one
        for one in await parts.store.workers()
        if one.report.tenants is None or set(one.report.tenants) & set(tenants)
    ]
    seen = [one.report for one in workers if state_of(one) != "lost"]
    used = sum(one.running for one in seen)
    waiting, oldest, dead = await _outbox(parts, frozenset(tenants))
    return Numbers(
        runs={state: sum(getattr(load, state) for load in loads) for state in states},
        queue_age=_age(parts, [load.oldest_at for load in loads if load.oldest_at is not None]),
        workers={**dict.fromkeys(_WORKER_STATES, 0), **Counter(map(state_of, workers))},
        slots_used=used,
        slots_free=sum(one.slots for one in seen) - used,
        outbox_waiting=waiting,
        outbox_age=_age(parts, oldest),
        dead_letters=dead,
    )


def show(telemetry: Telemetry, numbers: Numbers) -> None:
    for status, count in numbers.runs.items():
        telemetry.set(RUNS, status, value=count)
    for state, count in numbers.workers.items():
        telemetry.set(WORKERS, state, value=count)
    telemetry.set(QUEUE_AGE, value=numbers.queue_age)
    telemetry.set(SLOTS, "used", value=numbers.slots_used)
    telemetry.set(SLOTS, "free", value=numbers.slots_free)
    telemetry.set(OUTBOX_WAITING, value=numbers.outbox_waiting)
    telemetry.set(OUTBOX_AGE, value=numbers.outbox_age)
    telemetry.set(OUTBOX_DEAD, value=numbers.dead_letters)


async def exposition(parts: Parts, tenant_id: str, *, stream_clients: int) -> bytes:
    """All metrics of this process, with the numbers of the tenant. Raises what `Parts.require` raises."""
    await parts.require("server.view", tenant_id)
    numbers = await measure(parts, [tenant_id])
    # No await from here on: otherwise another tenant's numbers could be shown.
    show(parts.telemetry, numbers)
    parts.telemetry.set(STREAMS, value=stream_clients)
    return parts.telemetry.exposition()


async def keep_measuring(parts: Parts, tenants: Sequence[str], running: Callable[[], int]) -> None:
    """For a process whose metrics are read outside of its event loop. `running`: returns the number of runs
    that it drives.
    """
    while True:
        try:
            show(parts.telemetry, await measure(parts, tenants))
            parts.telemetry.set(OPEN_RUNS, value=running())
        except PodiumError:
            pass  # the store is unavailable, which the worker reports
        await asyncio.sleep(MEASURE_SECONDS)


async def measure_loop_lag(telemetry: Telemetry) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SECONDS
        await asyncio.sleep(_LAG_SECONDS)
        telemetry.observe(LOOP_LAG, value=max(0.0, loop.time() - due))


class ObservedStore:
    """A store whose writes are timed as their callers see them: including waiting for others and the commit."""

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in _TIMED:
            found = self._timed(name, found)
        setattr(self, name, found)
        return found

    def _timed(self, name: str, call: Any) -> Any:
        async def timed(*args: Any, **options: Any) -> Any:
            since = time.perf_counter()
            try:
                return await call(*args, **options)
            finally:
                self._telemetry.observe(STORE_CALLS, name, value=time.perf_counter() - since)

        return timed


def observed(store: Store, telemetry: Telemetry) -> Store:
    return cast("Store", ObservedStore(store, telemetry)) if telemetry.is_on else store


async def _outbox(parts: Parts, tenants: frozenset[str]) -> tuple[int, list[Timestamp], int]:
    """For runs of these tenants: undelivered events, since when the first ones of each line wait, and dead
    letters.
    """
    lines, dead = await parts.store.outbox_lines(), await parts.store.dead_letters()
    lines, dead = lines[:_MAX_LINES], dead[:_MAX_LINES]
    own = await _own(parts, {*(line.run_id for line in lines), *(one.run_id for one in dead)}, tenants)
    mine = [line for line in lines if line.run_id in own]
    oldest: list[Timestamp] = []
    for line in mine:
        found = await parts.store.read(line.run_id, after=line.first_seq - 1, limit=1)
        oldest += [record.persisted_at for record in found]
    return sum(line.waiting for line in mine), oldest, sum(one.run_id in own for one in dead)


async def _own(parts: Parts, run_ids: set[RunId], tenants: frozenset[str]) -> set[RunId]:
    own = set()
    for run_id in run_ids:
        try:
            if (await parts.store.get_run(run_id)).identity.tenant_id in tenants:
                own.add(run_id)
        except RunNotFound:
            continue  # removed since
    return own


def _age(parts: Parts, moments: Sequence[Timestamp]) -> float:
    """The age of the earliest one, in seconds; 0 if there is none."""
    if not moments:
        return 0.0
    return max(0.0, (parts.clock.now() - moment(min(moments))).total_seconds())
