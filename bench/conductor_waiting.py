"""Runs on Conductor that wait for a person: what they cost the server, and what Podium asks it about them.

The server looks at every open execution from time to time, whoever started it. What it spends on a thousand of them
while no worker of Podium runs is compared with what it spends while one does.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from bench.conductor_workers import Podium, Worker, plan_of, sequence
from bench.report import Report, milliseconds
from bench.temporal_workers import processor_of
from podium.engines.conductor.reconciling import PAGE
from podium.engines.conductor.site import parked_owner
from podium.engines.conductor.worker import RECONCILE_SECONDS
from podium.log.ids import RunId
from services import conductor
from services.conductor import ConductorServer
from services.missing import ServiceMissing

_RUNS: Final = 1_000
_AT_ONCE: Final = 20
_SETTLE_SECONDS: Final = 40
_MEASURED_SECONDS: Final = 120
_SLOTS: Final = 8
_LIMIT_SECONDS: Final = 600
_QUESTION: Final = 'steps: [{name: Q, approval: {message: "May it?"}}]\n'


def run(report: Report) -> None:
    report.section(f"Conductor: {_RUNS:,} runs that wait for a person, {_MEASURED_SECONDS} s")
    try:
        with (
            conductor.start(private=True) as server,
            tempfile.TemporaryDirectory(prefix="podium-bench-", ignore_cleanup_errors=True) as folder,
        ):
            asyncio.run(_measure(report, server, Path(folder)))
    except ServiceMissing as missing:
        report.figure("not measured", str(missing))


class Spent(msgspec.Struct, frozen=True):
    """In one minute: seconds of the processor, and requests."""

    server: float
    worker: float = 0.0
    calls: float = 0.0


async def _measure(report: Report, server: ConductorServer, folder: Path) -> None:
    podium = await Podium.open(server.address, folder)
    worker = Worker(server.address, folder, slots=_SLOTS)
    try:
        await podium.perform(sequence(100))
        idle = await _spent(server, worker)
        await _start_runs(podium)
        waiting = await _spent(server, worker)
        worker.stop()
        alone = await _spent(server)
    finally:
        worker.stop()
        await podium.close()
    with conductor.start(private=True) as empty:
        nothing = await _spent(empty)
    _report(report, idle, waiting, sweeps=alone.server - nothing.server)


def _report(report: Report, idle: Spent, waiting: Spent, *, sweeps: float) -> None:
    grown = waiting.server - idle.server
    report.figure("the server's own sweeps, per run and minute", milliseconds(sweeps / _RUNS))
    report.figure("with a worker, per run and minute", milliseconds(grown / _RUNS))
    report.figure("the worker, per run and minute", milliseconds((waiting.worker - idle.worker) / _RUNS))
    report.goal("server with a worker / its own sweeps", grown / sweeps, at_most=1.5)
    reconciler = 60 / RECONCILE_SECONDS * _RUNS / PAGE
    report.figure("calls of the reconciler, per minute", f"{reconciler:.0f}")
    report.goal("calls for the runs / those", (waiting.calls - idle.calls) / reconciler, at_most=1.05)


async def _spent(server: ConductorServer, worker: Worker | None = None) -> Spent:
    await asyncio.sleep(_SETTLE_SECONDS)
    before = _counters(server, worker)
    await asyncio.sleep(_MEASURED_SECONDS)
    after = _counters(server, worker)
    minutes = _MEASURED_SECONDS / 60
    return Spent(*((late - early) / minutes for early, late in zip(before, after, strict=True)))


def _counters(server: ConductorServer, worker: Worker | None) -> tuple[float, ...]:
    if worker is None:
        return (processor_of(server.pid),)
    return processor_of(server.pid), processor_of(worker.pid), float(worker.calls)


async def _start_runs(podium: Podium) -> None:
    plan, room = plan_of(_QUESTION), asyncio.Semaphore(_AT_ONCE)

    async def start() -> RunId:
        async with room:
            return (await podium.start(plan))[0]

    started = await asyncio.gather(*(start() for _ in range(_RUNS)))
    async with asyncio.timeout(_LIMIT_SECONDS):
        while not all([await _waits(podium, run_id) for run_id in started]):
            await asyncio.sleep(1)


async def _waits(podium: Podium, run_id: RunId) -> bool:
    held = await podium.store.held_lease(run_id)
    return held is not None and held.lease.owner == parked_owner(run_id)
