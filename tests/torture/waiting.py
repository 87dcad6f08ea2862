"""Waiting is free: thousands of runs that wait on one worker, and what the worker uses meanwhile.

Runs wait for an approval or for a timer, or are paused. The worker must hold fewer than 200 descriptors, use less than
1% of a core and at most 1.2x the memory of a worker without runs; and each run must continue within a second of its
signal (99%).

    python -m tests.torture.waiting --runs 10000
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import msgspec

from podium.api import Workflow
from podium.log.ids import DEFAULT_TENANT, RunId
from podium.log.times import moment
from podium.log.transitions import RunStatus
from podium.operations.parts import Parts
from podium.operations.signals import request_signal
from podium.operations.submitting import submit_run
from podium.ports.engine import RunRequest, SignalRequest
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

MAX_DESCRIPTORS: Final = 200
MAX_CPU: Final = 0.01
MAX_MEMORY: Final = 1.2
MAX_WAKE_SECONDS: Final = 1.0
APPROVAL: Final = """\
version: 2.0
name: asks
steps:
  - name: ask
    approval: {message: "Continue?"}
  - name: after
    set: {done: true}
"""
TIMER: Final = """\
version: 2.0
name: waits
steps:
  - name: later
    approval: {message: "Continue?", timeout: 36000}
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Figures(msgspec.Struct):
    runs: int
    descriptors: int
    cpu: float
    # Compared with a worker without runs.
    memory: float
    # Seconds from a signal to the next step: the slowest of 99%.
    wake_p99: float

    @property
    def problems(self) -> list[str]:
        limits = (
            ("descriptors", self.descriptors, MAX_DESCRIPTORS),
            ("share of a core", self.cpu, MAX_CPU),
            ("memory", self.memory, MAX_MEMORY),
            ("seconds to wake (p99)", self.wake_p99, MAX_WAKE_SECONDS),
        )
        return [
            f"{name}: {found:.3f}, and {limit} is allowed" for name, found, limit in limits if found > limit
        ]


class Worker:
    def __init__(self, url: str, folder: Path) -> None:
        environment = {**os.environ, "PODIUM_STORE": url, "PODIUM_RUNS": str(folder / "runs")}
        command = [sys.executable, "-m", "podium", "worker", "--drain", "0"]
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert b"ready" in self._process.stdout.readline()
        self._proc = Path(f"/proc/{self._process.pid}")

    @property
    def descriptors(self) -> int:
        return len(list((self._proc / "fd").iterdir()))

    @property
    def cpu_seconds(self) -> float:
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def memory(self) -> int:
        """Without what it shares with others."""
        resident, shared = (self._proc / "statm").read_text().split()[1:3]
        return (int(resident) - int(shared)) * _PAGE

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate()


async def measure(folder: Path, runs: int, *, seconds: float, signals: int, seed: int = 0) -> Figures:
    url = f"sqlite:{folder / 'podium.db'}"
    store = await open_store(url, create=True)
    parts = use_case_parts(store, folder / "runs", lambda _text: None)
    try:
        idle = Worker(url, folder)
        await _let_work(parts, folder, 20)
        alone = idle.memory
        idle.stop()
        asking, _, to_pause = await _create(parts, folder, runs)
        worker = Worker(url, folder)
        try:
            await _until_parked(parts, runs)
            for run_id in to_pause:
                await _signal(parts, run_id, "PAUSE", {})
            await _until_paused(parts, to_pause)
            await _until_parked(parts, runs)
            descriptors = worker.descriptors
            before, at = worker.cpu_seconds, time.monotonic()
            await asyncio.sleep(seconds)
            cpu = (worker.cpu_seconds - before) / (time.monotonic() - at)
            memory = worker.memory / alone
            waits = [await _wake(parts, run_id) for run_id in Random(seed).sample(asking, signals)]
            p99 = sorted(waits)[min(len(waits) - 1, int(len(waits) * 0.99))]
            return Figures(runs, descriptors, cpu, memory, p99)
        finally:
            worker.stop()
    finally:
        await store.close()


async def _let_work(parts: Parts, folder: Path, runs: int) -> None:
    """Runs that end: a worker that has never driven a run has not loaded all of its modules."""
    plan = Workflow.parse(APPROVAL.replace('approval: {message: "Continue?"}', "set: {x: 1}")).plan
    for number in range(runs):
        await submit_run(parts, RunRequest(plan, run_id=f"warm-{number}", workspace=folder))
    while (await parts.store.stats()).open_runs:
        await asyncio.sleep(0.1)


async def _create(parts: Parts, folder: Path, runs: int) -> tuple[list[str], list[str], list[str]]:
    """Those that wait for an approval, for a timer, and those to be paused."""
    plans = [Workflow.parse(text).plan for text in (APPROVAL, TIMER, APPROVAL)]
    names: tuple[list[str], list[str], list[str]] = ([], [], [])
    for number in range(runs):
        kind = number % 3
        name = f"{('asks', 'waits', 'paused')[kind]}-{number}"
        await submit_run(parts, RunRequest(plans[kind], run_id=name, workspace=folder))
        names[kind].append(name)
    return names


async def _until_parked(parts: Parts, runs: int) -> None:
    while True:
        loads = await parts.store.pool_loads(DEFAULT_TENANT)
        if loads and loads[0].parked == runs:
            return
        await asyncio.sleep(0.5)


async def _until_paused(parts: Parts, run_ids: list[str]) -> None:
    for run_id in run_ids:
        while (await parts.store.get_run(RunId(run_id))).status is not RunStatus.PAUSED:
            await asyncio.sleep(0.1)


async def _wake(parts: Parts, run_id: str) -> float:
    """Seconds from the signal to the end of the run, by the clock of the store."""
    await _signal(parts, run_id, "APPROVE", {"stepId": "ask"})
    async for records in parts.store.watch(RunId(run_id)):
        if any(one.event_type == "RunCompleted" for one in records):
            break
    found = {one.event_type: one for one in await parts.store.read(RunId(run_id))}
    asked, ended = (moment(found[name].persisted_at) for name in ("SignalAccepted", "RunCompleted"))
    return (ended - asked).total_seconds()


async def _signal(parts: Parts, run_id: str, kind: str, payload: dict[str, str]) -> None:
    request = SignalRequest(signal_id=str(uuid4()), signal_type=kind, payload=payload)
    await request_signal(parts, DEFAULT_TENANT, run_id, request)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.waiting", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--signals", type=int, default=300)
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        figures = asyncio.run(measure(Path(name), given.runs, seconds=given.seconds, signals=given.signals))
    print(figures)
    for one in figures.problems:
        print(one)
    return 1 if figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
