"""Starting runs on a Temporal server, for workers of `bench.temporal_workers`."""

from pathlib import Path

from temporalio.client import Client

from bench import temporal_workers as workers
from bench.temporal_workers import NOTHING
from podium.engines.temporal.client import connect, start_execution
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.engine import TemporalEngine
from podium.engines.temporal.names import workflow_id
from podium.language.workflow import read_workflow
from podium.log.ids import RunId
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore


def plan_of(text: str) -> Plan:
    reading = read_workflow(f'version: "2.0"\nname: bench\n{text}'.encode(), "bench.yaml")
    assert reading.plan is not None, reading.diagnostics
    return reading.plan


def sequence_of(count: int) -> str:
    return "".join(f"  - {{name: s{n}, python: '{NOTHING}'}}\n" for n in range(count))


def sequence(count: int) -> Plan:
    return plan_of(f"steps:\n{sequence_of(count)}")


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
        await start_execution(self.client, (await self.store.get_run(run_id)).identity, self._queues)
        return run_id

    async def wait(self, run_id: RunId) -> None:
        await self.client.get_workflow_handle(workflow_id(run_id)).result()
        run = await self.store.get_run(run_id)
        assert run.status == "COMPLETED", run
