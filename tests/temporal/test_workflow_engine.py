"""Temporal for programs that start runs and do not wait, and the Python API with this engine."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.promises.engines.workflow_engine import WorkflowEnginePromises, configure
from tests.temporal.site import Site

PROGRAM = """
import asyncio, os, sys
import podium

async def main():
    store, runs, address, namespace = sys.argv[1:]
    flow = podium.Workflow.parse('version: "2.0"\\nname: w\\nsteps: [{name: A, command: [echo, hi]}]\\n')
    options = dict(runs=runs, engine="temporal", address=address, namespace=namespace, queue="tests")
    async with podium.open(store, **options) as p:
        run = await p.start(flow, run_id="r")
        result = await run.wait()
        print(result.status, result.steps["A"].output, [event.type async for event in run.events()][1])

asyncio.run(main())
sys.stdout.flush()
os._exit(0)
"""


class TestTemporal(WorkflowEnginePromises):
    @pytest.fixture
    def options(self, site: Site, tmp_path: Path) -> Mapping[str, Any]:
        configure(tmp_path)
        site.environment["PODIUM_CONFIG"] = str(tmp_path / "config.yaml")
        site.start_worker()
        return {
            "store": site.store,
            "runs": str(site.runs),
            "engine": "temporal",
            "address": site.server.address,
            "namespace": site.namespace,
            "queue": "tests",
        }


def test_a_program_runs_a_workflow_on_temporal(site: Site, tmp_path: Path) -> None:
    site.start_worker()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            site.store,
            str(site.runs),
            site.server.address,
            site.namespace,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "completed hi RunValidationReport\n", done.stderr
