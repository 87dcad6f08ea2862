"""A host in a test: nodes that do what a test says, a store in memory or in a file, and ends to wait for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from podium.api import Workflow
from podium.engines.parts import LocalParts
from podium.engines.run_host import HostView, RunHost
from podium.log.ids import RunId
from podium.nodes.base import NodeEffect, operation
from podium.nodes.context import NodeContext
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.ports.store import Store
from podium.wiring.nodes import nodes_with
from podium.wiring.stores import system_clock

POOL = "p"
LIMIT = 60.0


class Given(BaseModel):
    event: dict[str, Any] = {}


class Made(BaseModel):
    done: bool = True


class Work(NodeEffect):
    """Counts its calls, and waits while a test wants it to."""

    name = "work"
    calls: ClassVar[list[str]] = []
    gate: ClassVar[Callable[[str], Any] | None] = None

    @operation
    async def do(self, data: Given, context: NodeContext) -> Made:
        Work.calls.append(context.correlation_id)
        if Work.gate is not None:
            await Work.gate(context.correlation_id)
        return Made()


class Second(NodeEffect):
    name = "second"

    @operation
    async def do(self, data: Given, context: NodeContext) -> Made:
        return Made()


NODES = (Work, Second)
CONTRACT = """\
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata:
      {version: 1.0.0, workflow_name: two, workflow_version: 1.0.0, description: two, timeout_ms: 600000}
    execution_graph:
      version: 1.0.0
      nodes:
        - {node_id: work, node_type: effect, depends_on: []}
        - {node_id: second, node_type: effect, depends_on: [work]}
    coordination_rules: {version: 1.0.0, execution_mode: parallel, max_parallel_branches: 2}
"""


def contract() -> Plan:
    return Workflow.parse(CONTRACT, nodes=NODES).plan


def workflow(steps: str) -> Plan:
    return Workflow.parse(f"version: 2.0\nname: waits\nsteps:\n{steps}").plan


class Ends(HostView):
    """What became of runs."""

    def __init__(self) -> None:
        self.started_runs: list[str] = []
        self.ended_runs: dict[str, str] = {}
        self.troubles: list[str] = []
        self._changed = asyncio.Event()

    def started(self, run_id: RunId) -> None:
        self.started_runs.append(run_id)

    def ended(self, run_id: RunId, event_type: str) -> None:
        self.ended_runs[run_id] = event_type
        self._changed.set()

    def trouble(self, reason: str) -> None:
        self.troubles.append(reason)

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(LIMIT):
            while len(self.ended_runs) < count:
                self._changed.clear()
                await self._changed.wait()


def parts_of(store: Store, folder: Path, *, lease: float = 30, nodes: Any = NODES) -> LocalParts:
    return LocalParts(
        store=store,
        clock=system_clock(),
        runs=folder,
        secrets={},
        inline={},
        lease=timedelta(seconds=lease),
        lock_wait=timedelta(seconds=1),
        outage=timedelta(seconds=30),
        artifacts=None,
        providers=None,
        recordings=None,
        nodes=nodes_with(nodes),
    )


@contextlib.asynccontextmanager
async def serving(host: RunHost, *, drain: float = 0, starts_steps: bool = True) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(host.serve(stop, drain=drain, starts_steps=starts_steps))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, LIMIT)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.01)


def request(plan: Plan, **fields: Any) -> RunRequest:
    return RunRequest(plan, **fields)
