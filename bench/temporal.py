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

import msgspec
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from bench import temporal_workers as workers
from bench.report import Report, milliseconds
from bench.temporal_workers import NOTHING
from podium.engines.temporal.client import connect, start_execution
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.engine import TemporalEngine
from podium.engines.temporal.messages import RunArgs
from podium.engines.temporal.names import workflow_id
from podium.language.workflow import read_workflow
from podium.log.ids import RunId
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore
from services import temporal
from services.missing import ServiceMissing

_ROUNDS: Final = 11
_STEPS: Final = 100
_TICKS: Final = 100


def run(report: Report) -> None:
    for durable, limit in ((True, 1.2), (False, 1.25)):
        where = "on disk" if durable else "in memory"
        report.section(f"Temporal, {where}: {_STEPS} steps that do nothing, median of {_ROUNDS}")
        try:
            with temporal.start(durable=durable) as server, _folder() as folder:
                asyncio.run(_compare(report, server, Path(folder), limit))
        except ServiceMissing as missing:
            report.figure("not measured", str(missing))


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="podium-bench-", ignore_cleanup_errors=True)


def plan_of(text: str) -> Plan:
    reading = read_workflow(f'version: "2.0"\nname: bench\n{text}'.encode(), "bench.yaml")
    assert reading.plan is not None, reading.diagnostics
    return reading.plan


def sequence(count: int) -> Plan:
    return plan_of("steps:\n" + "".join(f"  - {{name: s{n}, python: '{NOTHING}'}}\n" for n in range(count)))


# --- who runs -------------------------------------------------------------------------------------


class Podium:
    """Starts runs on a server, for a worker process that uses the same folder."""

    def __init__(self, client: Client, engine: TemporalEngine, store: SqliteStore, folder: Path) -> None:
        self.client = client
        self.store = store
        self._engine = engine
        self._queues = workers.queues(folder)

    @classmethod
    async def open(cls, address: str, folder: Path) -> "Podium":
        store = await SqliteStore.open(workers.database(folder))
        connection = Connection(address)
        engine = TemporalEngine(workers.parts(store, folder), connection, workers.queues(folder))
        return cls(await connect(connection, store), engine, store, folder)

    async def start(self, plan: Plan, inputs: dict[str, object] | None = None) -> RunId:
        run_id = await self._engine.create(RunRequest(plan, inputs or {}))
        await start_execution(self.client, RunArgs(run_id, self._queues.attempts), self._queues.decisions)
        return run_id

    async def wait(self, run_id: RunId) -> None:
        await self.client.get_workflow_handle(workflow_id(run_id)).result()
        run = await self.store.get_run(run_id)
        assert run.status == "COMPLETED", run


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
        for _ in range(_ROUNDS):
            for side in sides.values():
                await _measure(side, server.pid)
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
    worker_before, server_before = _processor(side.worker.pid), _processor(server)
    began = time.perf_counter()
    await side.perform()
    side.seconds.append(time.perf_counter() - began)
    side.worker_seconds.append(_processor(side.worker.pid) - worker_before)
    side.server_seconds.append(_processor(server) - server_before)


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _report(
    report: Report, client: Client, sides: dict[str, _Side], ids: dict[str, str], limit: float
) -> None:
    sizes = {name: await History.of(client.get_workflow_handle(ids[name])) for name in sides}
    for name, side in sides.items():
        report.figure(f"{name}, per step", milliseconds(statistics.median(side.seconds) / _STEPS))
        for where, found in (("worker", side.worker_seconds), ("server", side.server_seconds)):
            report.figure(
                f"{name}, processor of the {where}", milliseconds(statistics.median(found) / _STEPS)
            )
        report.figure(f"{name}, history", f"{sizes[name].events} / {sizes[name].size / 1000:.1f} kB")
    hand, podium = sides["hand"], sides["podium"]
    pairs = zip(podium.seconds, hand.seconds, strict=True)
    report.goal("podium / hand, seconds", statistics.median(a / b for a, b in pairs), at_most=limit)
    report.goal("events of the history per step", sizes["podium"].events / _STEPS, at_most=6.2, unit="events")
    report.goal("podium / hand, bytes", sizes["podium"].size / sizes["hand"].size, at_most=1.6)


class History(msgspec.Struct):
    """How large the history of an execution is."""

    events: int = 0
    size: int = 0
    # Bytes by type of event.
    kinds: dict[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    async def of(cls, handle: "WorkflowHandle[object, object]") -> "History":
        found = cls()
        async for event in handle.fetch_history_events():
            found.events += 1
            found.size += event.ByteSize()
            kind = EventType.Name(event.event_type)
            found.kinds[kind] = found.kinds.get(kind, 0) + event.ByteSize()
        return found
