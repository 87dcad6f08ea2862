"""Writers in processes of their own, as several machines would be.

    python -m tests.promises.postgres.writers '{"conninfo": .., "schema": .., ..}'

Each process has one store and several writers. A writer appends small batches to the runs it was given, over and over,
and repeats each one that was not acknowledged until it is. It prints a line for every batch that was acknowledged, and
only after that. Every third append is a repetition of something, and every fifth is an event that all writers write.
"""

import asyncio
import sys
import time
from itertools import count
from typing import NamedTuple

import msgspec

from podium.errors import StoreUnavailable
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.stores.postgres import PostgresStore
from podium.testing.events import event

BATCH = 4


class Job(msgspec.Struct, frozen=True):
    conninfo: str
    schema: str
    process: int
    writers: int
    # Which run the writer of each place appends to.
    runs: list[str]
    generation: int
    # How many batches each writer appends; None: until the input is closed.
    batches: int | None


class Ack(msgspec.Struct, frozen=True, array_like=True):
    """A batch that the store has acknowledged."""

    run: str
    name: str
    seqs: list[int]
    duplicate: bool
    # How long the append took that was acknowledged, and how many before it were not.
    seconds: float
    failures: int


class _Batch(NamedTuple):
    name: str
    writes: list[EventWrite]


def own_batch(run: str, writer: str, number: int) -> _Batch:
    name = f"{writer}-{number}"
    return _Batch(name, [event(run, "StepStarted", f"{name}-{place}") for place in range(BATCH)])


def common_event(run: str, number: int) -> _Batch:
    return _Batch(f"common-{number}", [event(run, "StepStarted", f"common-{number}")])


async def _work(store: PostgresStore, job: Job, place: int, stop: asyncio.Event) -> None:
    run, writer = job.runs[place % len(job.runs)], f"p{job.process}w{place}"
    for number in count() if job.batches is None else range(job.batches):
        if stop.is_set():
            return
        batches = [own_batch(run, writer, number)]
        if number % 3 == 2:
            batches.append(own_batch(run, writer, number // 2))
        if number % 5 == 4:
            batches.append(common_event(run, number))
        for batch in batches:
            await _append(store, job, run, batch)


async def _append(store: PostgresStore, job: Job, run: str, batch: _Batch) -> None:
    for failures in count():
        began = time.perf_counter()
        try:
            answers = await store.append(RunId(run), batch.writes, fence=Fence(job.generation))
        except StoreUnavailable:
            await asyncio.sleep(0.05)  # the server is away: nothing tells us when it is back
            continue
        seconds = time.perf_counter() - began
        seqs = [answer.record.run_seq for answer in answers]
        ack = Ack(run, batch.name, seqs, any(answer.duplicate for answer in answers), seconds, failures)
        print(msgspec.json.encode(ack).decode(), flush=True)
        return


async def _open(job: Job) -> PostgresStore:
    while True:
        try:
            return await PostgresStore.open(job.conninfo, schema=job.schema)
        except StoreUnavailable:
            await asyncio.sleep(0.05)  # killed before this process had even begun


async def _main(job: Job) -> None:
    store = await _open(job)
    stop = asyncio.Event()
    if job.batches is None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    await asyncio.gather(*(_work(store, job, place, stop) for place in range(job.writers)))
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.argv[1], type=Job)))
