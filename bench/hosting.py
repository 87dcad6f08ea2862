"""Many short runs: eight nodes on a run host, against the same graph of eight Python functions on the local engine.

Both with the log in SQLite, 32 runs at the same time, and in turns, so that both see the same machine.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from bench.report import Report
from podium.api import Workflow
from podium.engines.local import LocalEngine
from podium.engines.run_host import HostView
from podium.log.ids import RunId
from podium.nodes.base import NodeCompute, NodeEffect, operation
from podium.nodes.context import NodeContext
from podium.nodes.registry import NodeClass
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore
from podium.wiring.artifacts import payload_store
from podium.wiring.engines import run_host
from podium.wiring.nodes import nodes_with
from podium.wiring.stores import system_clock

_GRAPH: Final = {
    "a": [],
    "b": ["a"],
    "c": ["b"],
    "d": ["c"],
    "e": ["d"],
    "f": ["d"],
    "g": ["e", "f"],
    "h": ["g"],
}
# As in the registration of nodes: what reads and writes is an effect, what decides is pure.
_EFFECTS: Final = "abefh"
_RUNS: Final = 400
_CONCURRENT: Final = 32
_ROUNDS: Final = 5
_POOL: Final = "bench"


class _Given(BaseModel):
    event: dict[str, Any] = {}


class _Made(BaseModel):
    done: bool


class _Computing(NodeCompute):
    name = "bench_compute"

    @operation
    def compute(self, data: _Given, context: NodeContext) -> _Made:
        return _Made(done=True)


class _Acting(NodeEffect):
    name = "bench_effect"

    @operation
    async def act(self, data: _Given, context: NodeContext) -> _Made:
        return _Made(done=True)


def _node(node_id: str) -> NodeClass:
    base = _Acting if node_id in _EFFECTS else _Computing
    return type(f"Node{node_id.upper()}", (base,), {"name": f"bench_{node_id}"})


NODES: Final = tuple(_node(node_id) for node_id in _GRAPH)


def _contract() -> Plan:
    nodes = "\n".join(
        f"        - {{node_id: bench_{name}, node_type: {'effect' if name in _EFFECTS else 'compute'}, "
        f"depends_on: [{', '.join(f'bench_{one}' for one in needs)}]}}"
        for name, needs in _GRAPH.items()
    )
    text = f"""\
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata:
      {{version: 1.0.0, workflow_name: bench, workflow_version: 1.0.0, description: eight, timeout_ms: 60000}}
    execution_graph:
      version: 1.0.0
      nodes:
{nodes}
    coordination_rules: {{version: 1.0.0, execution_mode: parallel, max_parallel_branches: 2}}
"""
    return Workflow.parse(text, nodes=NODES).plan


def _functions() -> Plan:
    steps = "\n".join(
        f"  - name: {name}\n    python: {{function: nothing}}\n    depends_on: [{', '.join(needs)}]"
        for name, needs in _GRAPH.items()
    )
    return Workflow.parse(f"version: 2.0\nname: eight\nmax_parallel: 2\nsteps:\n{steps}\n").plan


def _nothing() -> dict[str, Any]:
    return {"done": True}


class _Ends(HostView):
    def __init__(self, count: int) -> None:
        self._left = count
        self.all = asyncio.Event()
        self.failed = 0

    def ended(self, run_id: RunId, event_type: str) -> None:
        self.failed += event_type != "RunCompleted"
        self._left -= 1
        if not self._left:
            self.all.set()


async def host_runs(plan: Plan, folder: Path, count: int = _RUNS) -> float:
    store = await SqliteStore.open(folder / "podium.db")
    ends, stop = _Ends(count), asyncio.Event()
    host = run_host(store, folder, pool=_POOL, slots=_CONCURRENT, view=ends, nodes=nodes_with(NODES))
    serving = asyncio.create_task(host.serve(stop, drain=0))
    began = time.perf_counter()
    await _create_all(lambda: host.create(RunRequest(plan)), count)
    await ends.all.wait()
    took = time.perf_counter() - began
    stop.set()
    await serving
    await store.close()
    assert not ends.failed
    assert not [one for one in folder.iterdir() if one.is_dir()]
    return count / took


async def local_runs(plan: Plan, folder: Path, count: int = _RUNS) -> float:
    store = await SqliteStore.open(folder / "podium.db")
    functions = {"nothing": _nothing}
    engine = LocalEngine(store, system_clock(), folder, inline=functions, artifacts=payload_store)

    async def one() -> None:
        run_id = await engine.create(RunRequest(plan))
        ended = await engine.drive(run_id)
        assert ended.exit_code == 0, ended

    began = time.perf_counter()
    await _create_all(one, count)
    took = time.perf_counter() - began
    await store.close()
    return count / took


async def _create_all(make: Any, count: int) -> None:
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            await make()

    await asyncio.gather(*(some() for _ in range(_CONCURRENT)))


def _measure(work: Any, plan: Plan) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return float(asyncio.run(work(plan, Path(folder))))


def run(report: Report) -> None:
    report.section("Many short runs: eight nodes on a host, eight functions on the local engine")
    contract, functions = _contract(), _functions()
    rates = [(_measure(host_runs, contract), _measure(local_runs, functions)) for _ in range(_ROUNDS)]
    report.figure("runs/s on the host", f"{statistics.median(host for host, _ in rates):.0f}")
    report.figure("runs/s on the local engine", f"{statistics.median(local for _, local in rates):.0f}")
    ratio = statistics.median(host / local for host, local in rates)
    report.goal("host, compared with the local engine", ratio, at_least=3)
