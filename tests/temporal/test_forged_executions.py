"""Anyone with access to the server can start an execution by hand: it takes no run that it was not started for."""

import asyncio
import socket
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError

from podium.engines.temporal.names import Queues, workflow_type
from tests.temporal.site import Site

STEP = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'
QUESTION = 'version: "2.0"\nname: w\nsteps: [{name: Q, approval: {message: "May it?"}}]\n'


def _forge(site: Site, workflow_id: str, run_id: str) -> BaseException | None:
    """Start an execution as somebody with the server's own tools could; returns what it failed with."""
    queue = _queue(site)

    async def execute() -> None:
        client = await Client.connect(site.server.address, namespace=site.namespace)
        args = {"run_id": run_id, "queue": queue}
        await client.execute_workflow(workflow_type(), args, id=workflow_id, task_queue=queue)

    with pytest.raises(WorkflowFailureError) as failure:
        asyncio.run(asyncio.wait_for(execute(), 60))
    return failure.value.cause.__cause__


def _queue(site: Site) -> str:
    return Queues.beside_store("tests", socket.gethostname(), Path(site.store)).attempts


def _leave_local_run(site: Site) -> None:
    file = site.workspace / "local.yaml"
    file.write_text(QUESTION)
    place = ["--store", site.store, "--runs", str(site.runs)]
    site.podium("run", str(file), "--run-id", "here", "--no-wait", *place, code=5)


def test_an_execution_does_not_take_a_run_of_the_local_engine(site: Site) -> None:
    site.start_worker()
    _leave_local_run(site)
    before = site.events_of("here")
    assert "local engine" in str(_forge(site, "podium-here", "here"))
    assert site.events_of("here") == before
    site.signal("approve", "here")


def test_an_execution_does_not_take_a_run_with_another_id(site: Site) -> None:
    site.start_worker()
    assert site.begin(STEP, "other").wait() == 0
    assert "not the one of run 'other'" in str(_forge(site, "podium-forged", "other"))
