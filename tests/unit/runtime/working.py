"""A worker for tests: attempts of one run on a temporary folder, on SQLite, with real processes."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from podium.artifacts.local import LocalArtifacts
from podium.engines.hosting import prepare_for_worker
from podium.engines.parts import LocalParts
from podium.log.attempts import AttemptOrder
from podium.log.drafts import EventDraft
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.operations.workflows import load_workflow
from podium.ports.engine import RunRequest
from podium.ports.store import Store
from podium.providers.directory import ProviderDirectory
from podium.runtime.attempts import Attempts
from podium.runtime.hosted_runs import HostedRuns
from podium.stores.sqlite import SqliteStore
from podium.stores.sqlite.clock import BootClock
from podium.wiring.nodes import node_runtime

LEASE = timedelta(seconds=5)


@dataclass
class Worked:
    """A started run, and workers that carry out its attempts."""

    store: Store
    parts: LocalParts
    run_id: RunId
    lease: Lease
    folder: Path

    def worker(self, *, store: Store | None = None, lease: timedelta = LEASE, **options: Any) -> Attempts:
        """As another process would be: nothing is shared but the store and the folder."""
        parts = local_parts(store or self.store, self.folder)
        return Attempts(parts, HostedRuns(prepare_for_worker(parts)), lease=lease, **options)

    def order(self, path: str, attempt: int = 1, **fields: Any) -> AttemptOrder:
        before = [EventDraft("StepStarted", path, attempt)]
        return AttemptOrder(self.run_id, path, attempt, **{"before": before, **fields})

    async def log(self) -> list[EventRecord]:
        return await self.store.read(self.run_id)

    async def of_step(self, path: str) -> list[tuple[str, int]]:
        """The events of a step, each with its engine attempt."""
        return [
            (record.event_type, record.engine_attempt_id)
            for record in await self.log()
            if record.step_id == path
        ]

    def file(self, name: str) -> Path:
        return self.folder / "workspace" / name


def local_parts(store: Store, folder: Path) -> LocalParts:
    return LocalParts(
        store=store,
        clock=BootClock(),
        runs=folder / "runs",
        secrets={},
        inline={},
        lease=timedelta(seconds=30),
        lock_wait=timedelta(seconds=5),
        outage=timedelta(seconds=60),
        artifacts=LocalArtifacts,
        providers=ProviderDirectory,
        recordings=None,
        nodes=node_runtime,
    )


@asynccontextmanager
async def started_run(
    folder: Path, *steps: Mapping[str, Any], contract: str | None = None, **top: Any
) -> AsyncIterator[Worked]:
    """Of these steps, or of a node contract."""
    from podium.engines.creation import create_run

    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    folder.joinpath("runs").mkdir(exist_ok=True)
    source = json.dumps({"version": "2.0", "name": "w", **top, "steps": list(steps)}).encode()
    source = contract.encode() if contract is not None else source
    reading = load_workflow(source, "w.yaml", workspace=workspace, missing_is_error=True)
    assert reading.plan is not None, [str(one) for one in reading.diagnostics]
    store = await SqliteStore.open(folder / "runs" / "podium.db")
    try:
        parts = local_parts(store, folder)
        run_id = await create_run(parts, RunRequest(reading.plan, source=source, workspace=workspace), None)
        lease = await store.claim(run_id, owner="engine", ttl=timedelta(days=1))
        assert lease is not None
        worked = Worked(store, parts, run_id, lease, folder)
        worker = worked.worker()
        await worker.write(run_id, lease.fence, [EventDraft("RunStarted", payload={"run": {}})])
        yield worked
    finally:
        await store.close()
