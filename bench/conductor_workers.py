"""Workers of Podium on a Conductor server, and runs for them; each worker is a process of its own.

    python -m bench.conductor_workers ADDRESS FOLDER SLOTS DECIDES CALLS

CALLS is a file to which the number of requests is written that this worker has sent.
"""

import asyncio
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from bench.temporal_runs import plan_of, sequence
from bench.temporal_workers import database, parts
from podium.engines.conductor import worker as worker_module
from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.engine import ConductorEngine
from podium.engines.conductor.executions import Executions
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.worker import ConductorWorker
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore
from podium.wiring.plans import plan_loader

__all__ = ["Podium", "Worker", "plan_of", "sequence"]
_READY: Final = "ready"
_LOOK_SECONDS: Final = 0.01


def _domain() -> Domain:
    return Domain.of_host("bench", "bench")


class Worker:
    """A process; `slots`: steps at the same time."""

    def __init__(self, address: str, folder: Path, *, slots: int, decides: bool = True) -> None:
        self._calls = folder / f"calls-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "bench.conductor_workers", address, str(folder)]
        self._process = subprocess.Popen(
            [*command, str(slots), str(int(decides)), str(self._calls)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != _READY:
            raise RuntimeError("a worker of Podium did not start")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def calls(self) -> int:
        """As of a tenth of a second ago."""
        return int(self._calls.read_text() or 0) if self._calls.exists() else 0

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Podium:
    """Starts runs on a server, for workers that use the same folder."""

    def __init__(self, client: ConductorClient, store: SqliteStore, folder: Path, names: Names) -> None:
        self.client = client
        self.store = store
        self._executions = Executions(client, names)
        self._engine = ConductorEngine(parts(store, folder), client.connection, _domain())

    @classmethod
    async def open(cls, address: str, folder: Path) -> "Podium":
        store = await SqliteStore.open(database(folder))
        client = await connect(Connection(address))
        return cls(client, store, folder, Names.of_store(await store.store_id()))

    async def close(self) -> None:
        await self.client.close()
        await self.store.close()

    async def start(self, plan: Plan) -> tuple[RunId, str]:
        """The run, and its execution."""
        run_id = await self._engine.create(RunRequest(plan))
        return run_id, await self._executions.start(run_id, _domain())

    async def perform(self, plan: Plan) -> tuple[float, RunId]:
        """Seconds from the start to Conductor's COMPLETED, as for workflows that are written by hand."""
        run_id = await self._engine.create(RunRequest(plan))
        began = time.perf_counter()
        execution = await self._executions.start(run_id, _domain())
        while (found := await self.client.execution(execution)) is not None and found.is_open:
            await asyncio.sleep(_LOOK_SECONDS)
        seconds = time.perf_counter() - began
        run: Run = await self.store.get_run(run_id)
        assert run.status == "COMPLETED", run
        return seconds, run_id


async def _serve(address: str, folder: Path, slots: int, decides: bool, calls: Path) -> None:
    store = await SqliteStore.open(database(folder))
    clients: list[ConductorClient] = []

    async def counted(connection: Connection) -> ConductorClient:
        clients.append(await connect(connection))
        return clients[0]

    worker_module.connect = counted  # type: ignore[attr-defined]
    worker = ConductorWorker(
        parts(store, folder),
        Connection(address),
        _domain(),
        plan_loader().plan_of,
        _no_signal,
        slots=slots,
        decides=decides,
        drain=timedelta(seconds=1),
    )
    serving = asyncio.create_task(worker.serve(asyncio.Event(), lambda: print(_READY, flush=True)))
    while not serving.done():
        await asyncio.sleep(0.1)
        if clients:
            calls.write_text(str(clients[0].calls))
    await serving


async def _no_signal(_run: Run, _kind: str, _signal_id: str, _reason: str) -> bool:
    return False


if __name__ == "__main__":
    asyncio.run(
        _serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1", Path(sys.argv[5]))
    )
