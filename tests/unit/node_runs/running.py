"""Contracts carried out by the real local engine, in virtual time: waiting takes none, and is exact."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from podium.engines.local import LocalEngine
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.nodes import NodeContext, NodeEffect, operation
from podium.nodes.compiling import compile_contract
from podium.nodes.registry import NodeClass, NodeRegistry
from podium.plan.plan import Plan
from podium.ports.engine import Driving, RunEnded, RunRequest
from podium.runtime.tasks.node_runtime import NodeRuntime
from podium.stores.memory import MemoryStore

HEAD = """
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata: {version: 1.0.0, workflow_name: Orders, workflow_version: 1.0.0, description: ""}
    execution_graph:
      version: 1.0.0
      nodes:
"""


def contract(*nodes: str, rules: str = "", rest: str = "") -> str:
    """A contract whose graph has these nodes, each as `{node_id: ..., ...}`."""
    lines = "".join(f"        - {node}\n" for node in nodes)
    rules = f"    coordination_rules: {{version: 1.0.0, {rules}}}\n" if rules else ""
    return f"{HEAD}{lines}{rules}{rest}"


def compiled(text: str, *classes: NodeClass) -> Plan:
    reading = compile_contract(text.encode(), "c.yaml", NodeRegistry(classes))
    assert reading.plan is not None, [str(one) for one in reading.diagnostics]
    return reading.plan


def problems_of(text: str, *classes: NodeClass) -> list[str]:
    """`line:column code message` of each."""
    reading = compile_contract(text.encode(), "c.yaml", NodeRegistry(classes))
    return [f"{one.line}:{one.column} {one.code} {one.message}" for one in reading.diagnostics]


class LoopClock:
    """Moves with the event loop."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class Ended:
    run: RunEnded
    events: list[EventRecord]

    def payloads(self, event_type: str, step: str | None = None) -> list[dict[str, Any]]:
        return [
            msgspec.json.decode(event.payload)
            for event in self.events
            if event.event_type == event_type and step in (None, event.step_id)
        ]

    def output(self, step: str) -> Any:
        return self.payloads("StepCompleted", step)[-1]["json"]

    def messages(self, step: str) -> list[dict[str, Any]]:
        """What the step published."""
        messages: list[dict[str, Any]] = self.payloads("StepCompleted", step)[-1].get("publishes", [])
        return messages

    def error(self, step: str) -> dict[str, Any]:
        error: dict[str, Any] = self.payloads("StepFailed", step)[-1]["error"]
        return error


@dataclass
class Host:
    """A process with nodes; several runs of it share their breakers."""

    folder: Path
    classes: Sequence[NodeClass] = ()
    ports: dict[Any, object] = field(default_factory=dict)
    environment_id: str = "local"
    project_id: str = "default"

    def __post_init__(self) -> None:
        self.clock = LoopClock()
        self.registry = NodeRegistry(self.classes, ports=lambda: self.ports)
        self.runtime = NodeRuntime(self.registry, self.clock)
        self._count = 0

    async def run(
        self, text: str, event: dict[str, Any] | None = None, *, cancel_after: float | None = None
    ) -> Ended:
        self._count += 1
        store = MemoryStore(self.clock)
        engine = LocalEngine(store, self.clock, self.folder, secrets={}, nodes=lambda: self.runtime)
        reading = compile_contract(text.encode(), "c.yaml", self.registry)
        assert reading.plan is not None, [str(one) for one in reading.diagnostics]
        request = RunRequest(
            reading.plan,
            {"event": event or {}},
            workspace=self.folder,
            run_id=f"run-{self._count}",
            environment_id=self.environment_id,
            project_id=self.project_id,
        )
        run_id = await engine.create(request)

        def on_driving(driving: Driving) -> None:
            if cancel_after is not None:
                asyncio.get_running_loop().call_later(cancel_after, driving.cancel, "enough")

        ended = await engine.drive(run_id, on_driving=on_driving)
        return Ended(ended, await store.read(RunId(run_id), limit=10_000))


class Nothing(BaseModel):
    pass


Work = Callable[[NodeContext], Awaitable[None]]


def effect(name: str, work: Work) -> type[NodeEffect]:
    """An effect that does this."""

    class Effect(NodeEffect):
        @operation
        async def act(self, data: Nothing, context: NodeContext) -> Nothing:
            await work(context)
            return Nothing()

    Effect.name = name
    return Effect
