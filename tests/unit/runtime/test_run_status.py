"""The status of a run by the reference of its engine: ids and status come from the store."""

import asyncio
from typing import Any

import msgspec
import pytest

from podium.errors import RunNotFound
from podium.log.engines import TemporalRunRef, local_ref
from podium.log.ids import RunId
from podium.log.transitions import RunStatus
from podium.runtime.other_engines import OtherEngine
from podium.runtime.run_status import status_of_reference
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run

R1 = RunId("r1")
ENGINE = TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=R1, task_queue="q")


async def place() -> tuple[MemoryStore, VirtualClock]:
    clock = VirtualClock()
    store = MemoryStore(clock)
    new = new_run("r1", run={"tenant_id": "acme", "project_id": "web"}, engine=ENGINE)
    await store.create_run(new, [event("r1", "RunQueued")])
    lease = await store.claim(R1, owner="temporal/podium-r1", ttl=None)
    assert lease is not None
    failed: Any = {
        "error": {"category": "USER", "code": "EXIT", "message": "exit code 1", "retryable": False}
    }
    await store.append(
        R1,
        [
            event("r1", "RunStarted"),
            event("r1", "StepStarted", "a"),
            event("r1", "StepFailed", "a", **failed),
            event("r1", "RunFailed", **failed),
        ],
        fence=lease.fence,
    )
    return store, clock


@pytest.mark.rule("G33")
def test_a_status_has_the_ids_of_the_run_and_the_fields_of_the_specification() -> None:
    async def scenario() -> None:
        status = await status_of_reference(*await place(), ENGINE)
        assert status.status is RunStatus.FAILED
        assert status.engine_run_ref == ENGINE
        written = msgspec.to_builtins(status)
        expected = {
            "runId": "r1",
            "status": "FAILED",
            "tenantId": "acme",
            "projectId": "web",
            "environmentId": "local",
            "planId": "nightly",
            "planVersion": "1.0.0",
            "failedSteps": 1,
        }
        assert expected.items() <= written.items()
        assert {"startedAt", "completedAt", "failure", "message"} <= written.keys()

    asyncio.run(scenario())


def test_a_reference_of_another_engine_does_not_reach_the_run() -> None:
    async def scenario() -> None:
        store, clock = await place()
        with pytest.raises(OtherEngine):
            await status_of_reference(store, clock, local_ref("r1"))
        with pytest.raises(RunNotFound):
            await status_of_reference(store, clock, local_ref("r2"))

    asyncio.run(scenario())
