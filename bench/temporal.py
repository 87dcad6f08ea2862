"""Runs on a Temporal server, beside a workflow with as many activities that is written by hand.

Both take turns on one server with one SDK, each with a worker process of its own; what must hold are ratios. A durable
server writes to the disk, one in memory does not: there the workers themselves weigh more.
"""

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from temporalio.client import Client

from bench import temporal_scale
from bench import temporal_workers as workers
from bench.report import Report, milliseconds
from bench.temporal_histories import histories, size
from bench.temporal_runs import Podium, sequence
from bench.temporal_workers import processor_of
from podium.engines.temporal.names import workflow_id
from services import temporal
from services.missing import ServiceMissing

_ROUNDS: Final = 11
_STEPS: Final = 100


def run(report: Report) -> None:
    for durable, limit in ((True, 1.2), (False, 1.25)):
        where = "on disk" if durable else "in memory"
        report.section(f"Temporal, {where}: {_STEPS} steps that do nothing, median of {_ROUNDS}")
        try:
            with temporal.start(durable=durable) as server, _folder() as folder:
                asyncio.run(_compare(report, server, Path(folder), limit))
        except ServiceMissing as missing:
            report.figure("not measured", str(missing))
    temporal_scale.run(report)


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="podium-bench-", ignore_cleanup_errors=True)


@dataclass
class _Side:
    """One of those who are compared."""

    worker: "subprocess.Popen[str]"
    # Carries out all steps; the id of the workflow.
    perform: Callable[[], Awaitable[str]]
    seconds: list[float] = field(default_factory=list)
    # Of the processor, in its worker and in the server.
    worker_seconds: list[float] = field(default_factory=list)
    server_seconds: list[float] = field(default_factory=list)


# --- overhead -------------------------------------------------------------------------------------


async def _compare(report: Report, server: temporal.TemporalServer, folder: Path, limit: float) -> None:
    podium, plain = await Podium.open(server.address, folder), await Client.connect(server.address)
    plan = sequence(_STEPS)

    async def by_hand() -> str:
        return await _by_hand(plain)

    async def by_podium() -> str:
        run_id = await podium.start(plan)
        await podium.wait(run_id)
        return workflow_id(run_id)

    sides = {
        "hand": _Side(workers.start("hand", server.address, folder), by_hand),
        "podium": _Side(workers.start("podium", server.address, folder), by_podium),
    }
    try:
        ids = {name: await side.perform() for name, side in sides.items()}  # to warm up
        turn = list(sides.values())
        for _ in range(_ROUNDS):
            for side in turn:
                await _measure(side, server.pid)
            turn.reverse()
        await _report(report, plain, sides, ids, limit)
    finally:
        for side in sides.values():
            side.worker.kill()
            side.worker.wait()
        await podium.store.close()


async def _by_hand(client: Client) -> str:
    name = f"hand-{time.monotonic_ns()}"
    await client.execute_workflow("Hand", _STEPS, id=name, task_queue=workers.HAND_QUEUE)
    return name


async def _measure(side: _Side, server: int) -> None:
    worker_before, server_before = processor_of(side.worker.pid), processor_of(server)
    began = time.perf_counter()
    await side.perform()
    side.seconds.append(time.perf_counter() - began)
    side.worker_seconds.append(processor_of(side.worker.pid) - worker_before)
    side.server_seconds.append(processor_of(server) - server_before)


async def _report(
    report: Report, client: Client, sides: dict[str, _Side], ids: dict[str, str], limit: float
) -> None:
    found = {name: (await histories(client, ids[name]))[0] for name in sides}
    for name, side in sides.items():
        report.figure(f"{name}, per step", milliseconds(statistics.median(side.seconds) / _STEPS))
        for where, seconds in (("worker", side.worker_seconds), ("server", side.server_seconds)):
            report.figure(
                f"{name}, processor of the {where}", milliseconds(statistics.median(seconds) / _STEPS)
            )
        report.figure(f"{name}, history", f"{len(found[name])} / {size(found[name]) / 1000:.1f} kB")
    hand, podium = sides["hand"], sides["podium"]
    pairs = zip(podium.seconds, hand.seconds, strict=True)
    report.goal("podium / hand, seconds", statistics.median(a / b for a, b in pairs), at_most=limit)
    report.goal("events of the history per step", len(found["podium"]) / _STEPS, at_most=6.2, unit="events")
    report.goal("podium / hand, bytes", size(found["podium"]) / size(found["hand"]), at_most=1.6)
