"""A process that writes and says what was acknowledged, for tests that kill it or crowd it.

Started once and forked for every writer: a fork takes a millisecond, an interpreter with everything imported a third
of a second. The lines a writer prints are its acknowledgements, each written after its append returned.
"""

import asyncio
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event

# A pipe takes this much in one piece; acknowledgements are shorter.
_LINE = 100


def fork(work: Callable[[int], None]) -> tuple[int, int]:
    """Run `work(pipe)` in a child; returns its process id and the end of the pipe to read from."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn when there are threads, such as those of pytest-xdist; the child never needs them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(writing)
        except BaseException as error:
            os.write(writing, f"! {type(error).__name__}: {error}"[:_LINE].encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading


def lines_of(pipe: int) -> list[str]:
    """Everything that came through a pipe until its writer ended."""
    with os.fdopen(pipe, "rb") as stream:
        return [line.decode() for line in stream.read().splitlines()]


async def append_batches(path: Path, run_id: str, fence: Fence, name: str, pipe: int, tasks: int = 1) -> None:
    """Append three events at a time for ever, saying so after each. Several tasks share commits."""
    store = await SqliteStore.open(path)

    async def one(task: int) -> None:
        for number in range(1_000_000):
            batch = f"{name}-{task}-{number}"
            writes = [event(run_id, "StepStarted", f"{batch}/{part}", output="x" * 300) for part in range(3)]
            await store.append(RunId(run_id), writes, fence=fence)
            os.write(pipe, batch.encode() + b"\n")

    await asyncio.gather(*(one(task) for task in range(tasks)))


async def append_timed(
    path: Path, runs: list[tuple[str, Fence]], name: str, pipe: int, *, appends: int
) -> None:
    """Append one event at a time from several tasks, each third one twice; says number and seconds of each."""
    store = await SqliteStore.open(path)

    async def one(run_id: str, fence: Fence, task: int) -> None:
        for number in range(appends):
            write = event(run_id, "StepStarted", f"{name}-{task}-{number}")
            for _ in range(2 if number % 3 == 0 else 1):
                began = time.monotonic()
                (answer,) = await store.append(RunId(run_id), [write], fence=fence)
                took = time.monotonic() - began
                os.write(pipe, f"{run_id} {answer.record.run_seq} {write.event_id} {took:.6f}\n".encode())

    await asyncio.gather(*(one(run_id, fence, task) for task, (run_id, fence) in enumerate(runs)))
    await store.close()
