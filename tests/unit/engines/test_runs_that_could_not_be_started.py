"""A server does not say in time that it has started a run: the run does not stay open, unless it has started."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from podium.engines.creation import create_run
from podium.engines.errors import EngineUnavailable
from podium.engines.watching import end_unstarted
from podium.log.engines import CONDUCTOR, ConductorRunRef
from podium.log.events import EventType, encode_payload
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.operations.workflows import load_workflow
from podium.ports.engine import RunRequest
from podium.runtime.holders import workflow_owner
from podium.runtime.writing import new_event
from podium.stores.sqlite import SqliteStore
from tests.unit.runtime.working import local_parts

R1 = RunId("r1")
OWNER = workflow_owner(CONDUCTOR, "podium-r1")
WORKFLOW = b'{"version": "2.0", "name": "w", "steps": [{"name": "Q", "approval": {"message": "Continue?"}}]}'
NOW = timestamp(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.rule("EN20")
@pytest.mark.parametrize("has_started", [False, True])
def test_a_run_that_could_not_be_started_ends_unless_a_worker_has_started_it(
    tmp_path: Path, *, has_started: bool
) -> None:
    async def scenario() -> tuple[list[str], str | None]:
        (tmp_path / "runs").mkdir()
        store = await SqliteStore.open(tmp_path / "runs" / "podium.db")
        try:
            parts = local_parts(store, tmp_path)
            await create_run(parts, _request(tmp_path))
            run = await store.get_run(R1)
            if has_started:
                # It waits for a person now, and its lease is no worker's.
                lease = await store.claim(R1, owner=OWNER, ttl=None)
                assert lease is not None
                started = new_event(run.identity, EventType.RUN_STARTED, NOW, encode_payload({}))
                await store.append(R1, [started], fence=lease.fence)
            await end_unstarted(parts, run, OWNER, EngineUnavailable("no answer in time"))
            held = await store.held_lease(R1)
            types = [record.event_type for record in await store.read(R1)]
            return types, held.lease.owner if held is not None else None
        finally:
            await store.close()

    expected = (["RunQueued", "RunStarted"], OWNER) if has_started else (["RunQueued", "RunFailed"], None)
    assert asyncio.run(scenario()) == expected


def _request(folder: Path) -> RunRequest:
    reading = load_workflow(WORKFLOW, "w.yaml", workspace=folder)
    assert reading.plan is not None
    engine = ConductorRunRef(conductor_url="http://server", workflow_id="podium-r1", run_id=R1)
    return RunRequest(reading.plan, {}, "r1", workspace=folder, engine=engine, source=WORKFLOW)
