"""Conductor for programs that start runs and do not wait, and the Python API with this engine."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import podium
from tests.conductor.site import Site
from tests.promises.engines.workflow_engine import WorkflowEnginePromises, configure

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: [echo, hi]}]\n'


class TestConductor(WorkflowEnginePromises):
    @pytest.fixture
    def options(self, site: Site, tmp_path: Path) -> Mapping[str, Any]:
        configure(tmp_path)
        site.environment["PODIUM_CONFIG"] = str(tmp_path / "config.yaml")
        site.start_worker()
        return {
            "store": site.store,
            "runs": str(site.runs),
            "engine": "conductor",
            "url": site.server.address,
            "queue": site.queue,
        }


@pytest.mark.rule("CN13")
def test_a_program_runs_a_workflow_on_conductor(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.start_worker()
    monkeypatch.setenv("PODIUM_CONDUCTOR_URL", site.server.address)

    async def program() -> tuple[str, Any, list[str]]:
        flow = podium.Workflow.parse(WORKFLOW)
        async with podium.open(site.store, runs=site.runs, engine="conductor", queue=site.queue) as p:
            run = await p.start(flow, run_id="r")
            result = await run.wait()
            return result.status, result.steps["A"].output, [event.type async for event in run.events()]

    status, output, events = asyncio.run(program())
    assert (status, output, events[1]) == ("completed", "hi", "RunValidationReport")
    assert site.podium("why", "r", "--store", site.store, "--runs", str(site.runs)).returncode == 0
