"""A run on Temporal does not need the process that started it."""

import signal
import subprocess
import sys

from tests.temporal.site import Site

PAUSED = 'version: "2.0"\nname: w\nsteps: [{name: Q, approval: {message: "May it?"}}]\n'
STEP = b'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'
# A client that is killed before it starts what it created. In a process of its own, as in `starter`.
HALF = """
import asyncio, os, sys
from pathlib import Path
from podium.engines.temporal.connection import Connection
from podium.operations.workflows import load_workflow
from podium.ports.engine import RunRequest
from podium.wiring.server_engines import temporal_engine
from podium.wiring.stores import open_store

url, runs, workspace, address, namespace, source = sys.argv[1:]
connection = Connection(address=address, namespace=namespace, queue="tests")

async def create():
    store = await open_store(url, create=True)
    engine = temporal_engine(store, Path(runs), url, connection, shared_runs=False)
    plan = load_workflow(source.encode(), "w.yaml", workspace=Path(workspace)).plan
    await engine.create(RunRequest(plan, {}, "half", source.encode(), Path(workspace)))
    os._exit(0)

asyncio.run(create())
"""


def test_a_run_continues_when_its_terminal_is_closed(site: Site) -> None:
    site.start_worker()
    process = site.begin(PAUSED, "r")
    site.wait_for("r", "StepStarted Q")
    process.send_signal(signal.SIGHUP)
    assert process.wait() == -signal.SIGHUP
    site.signal("approve", "r")
    site.wait_for("r", "RunCompleted")


def test_a_run_that_was_created_and_not_started_is_started_by_a_worker(site: Site) -> None:
    site.start_worker()
    place = [site.store, str(site.runs), str(site.workspace), site.server.address, site.namespace]
    subprocess.run([sys.executable, "-c", HALF, *place, STEP.decode()], check=True, timeout=60)
    site.wait_for("half", "RunCompleted")
