"""A run that cannot start says so in its log: otherwise its execution would fail and the run stay pending for ever."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podium.engines.creation import create_run
from podium.engines.temporal.messages import RunArgs
from podium.engines.temporal.opening import ExecutionOpening
from podium.log.engines import TemporalRunRef
from podium.log.ids import RunId
from podium.operations.workflows import load_workflow
from podium.ports.engine import RunRequest
from podium.ports.store import Store
from podium.runtime.holders import workflow_owner
from podium.stores.sqlite import SqliteStore
from podium.wiring.plans import plan_loader
from tests.unit.runtime.working import local_parts

_RUN = RunId("r1")
_ARGS = RunArgs(_RUN, "queue")
_WORKFLOW = "podium-r1"


@asynccontextmanager
async def _created(folder: Path) -> AsyncIterator[tuple[Store, ExecutionOpening]]:
    """A run that no execution has opened yet."""
    source = json.dumps(
        {"version": "2.0", "name": "w", "steps": [{"name": "A", "command": ["true"]}]}
    ).encode()
    reading = load_workflow(source, "w.yaml", workspace=folder, missing_is_error=True)
    assert reading.plan is not None
    store = await SqliteStore.open(folder / "podium.db")
    try:
        parts = local_parts(store, folder)
        engine = TemporalRunRef(namespace="default", workflow_id=_WORKFLOW, run_id=_RUN)
        request = RunRequest(reading.plan, source=source, workspace=folder)
        await create_run(parts, request.on(_RUN, engine, {}))
        yield store, ExecutionOpening(parts, plan_loader().plan_of)
    finally:
        await store.close()


@pytest.mark.rule("EN20")
def test_a_run_belongs_to_its_execution_and_not_to_the_process_that_opened_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with _created(tmp_path) as (store, opening):
            opened = await opening.open(_ARGS, _WORKFLOW)
            held = await store.held_lease(_RUN)
            assert held is not None
            assert held.lease.owner == workflow_owner("temporal", _WORKFLOW)
            assert held.lease.expires_at is None
            # Its worker was killed, so another one is asked.
            again = await opening.open(_ARGS, _WORKFLOW)
            assert again.generation == opened.generation
            assert again.start is not None
            await opening.close(_RUN, _WORKFLOW)
            assert await store.held_lease(_RUN) is None

    asyncio.run(test())


@pytest.mark.rule("EN20", "G19")
def test_a_plan_that_is_not_the_one_of_the_run_fails_the_run_with_an_alert(tmp_path: Path) -> None:
    async def test() -> None:
        async with _created(tmp_path) as (store, opening):
            _damage(tmp_path)
            assert (await opening.open(_ARGS, _WORKFLOW)).is_over
            log = await store.read(_RUN)
            assert [record.event_type for record in log] == ["RunQueued", "AlertRaised", "RunFailed"]
            assert b"PLAN_REFUSED" in log[1].payload
            assert await store.held_lease(_RUN) is None
            assert (await opening.open(_ARGS, _WORKFLOW)).is_over

    asyncio.run(test())


def _damage(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "podium.db")) as database, database:
        database.execute("UPDATE contents SET content = x'00'")
