"""Measuring on a machine that others use too.

A figure taken alone says as much about the neighbours as about the code. So contestants run turn by turn, in
many rounds, and what decides is how one compares with another of the same round. Half of the rounds go
backwards, so that a machine that is slowing down hits all alike. Time is that of the processor, not of the
clock on the wall: whatever is measured with these functions neither waits nor starts threads.
"""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

_Name = TypeVar("_Name", bound=Hashable)

Job = Callable[[], object]


class Contestant(NamedTuple):
    job: Job
    # Calls in one measurement: enough to be longer than a tick of the clock, few enough to be soon over.
    repeats: int = 1


class Times(Generic[_Name]):
    """What every contestant needed in every round, in seconds for one call."""

    def __init__(self, rounds: Mapping[_Name, list[float]]) -> None:
        self._rounds = rounds

    def best(self, name: _Name) -> float:
        return min(self._rounds[name])

    def ratio(self, name: _Name, other: _Name) -> float:
        """How many times as long as `other` it takes: the median over the rounds."""
        pairs = zip(self._rounds[name], self._rounds[other], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)


def compete(contestants: Mapping[_Name, Contestant], rounds: int) -> Times[_Name]:
    times: dict[_Name, list[float]] = {name: [] for name in contestants}
    turn = list(contestants)
    for _ in range(rounds):
        for name in turn:
            times[name].append(processor_seconds(*contestants[name]))
        turn.reverse()
    return Times(times)


def processor_seconds(job: Job, repeats: int = 1) -> float:
    """How long one call takes, with the garbage collection that it causes, but none that was due before."""
    gc.collect()
    started = time.thread_time()
    for _ in range(repeats):
        job()
    return (time.thread_time() - started) / repeats


def bytes_kept(job: Job) -> int:
    """How much memory what the job returns needs, beyond what was there before."""
    job()  # whatever is made only once is made now
    gc.collect()
    tracemalloc.start()
    kept = job()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size


def bytes_at_most(job: Job) -> int:
    """How much memory the job needs at its peak, beyond what was there before."""
    job()
    gc.collect()
    tracemalloc.start()
    job()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
