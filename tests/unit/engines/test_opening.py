"""A worker compares a plan with its engine again when it opens a run."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from podium.engines.creation import create_run
from podium.engines.parts import LocalParts
from podium.engines.temporal.messages import OpenedRun, RunArgs
from podium.engines.temporal.opening import ExecutionOpening
from podium.log.engines import TemporalRunRef
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.operations.workflows import require_workflow
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.ports.store import Contents
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.wiring.engines import local_engine

R1 = RunId("r1")
ENGINE = TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=R1, task_queue="q")


def opened(folder: Path, *keys: str) -> tuple[OpenedRun, list[EventRecord]]:
    """Of a run that was created without asking whether this engine can run it, as another version may do."""
    text = "".join(
        f"{key}\n" for key in ('version: "2.0"', "name: w", *keys, "steps: [{name: A, command: ls}]")
    )
    plan = require_workflow(text.encode(), "w.yaml").plan
    assert plan is not None

    async def scenario() -> tuple[OpenedRun, list[EventRecord]]:
        store = MemoryStore(VirtualClock())
        parts: LocalParts = local_engine(store, VirtualClock(), folder)._parts  # type: ignore[attr-defined]
        request = RunRequest(plan, {}, "r1", workspace=folder, engine=ENGINE)
        await create_run(parts, request)
        args = RunArgs("r1", "q")

        async def plan_of(_run: Run, _contents: Contents) -> Plan:
            return plan

        opening = ExecutionOpening(parts, plan_of)
        first = await opening.open(args, "podium-r1")
        if not first.is_over:
            await opening.open(args, "podium-r1")  # its worker may have been killed before it could answer
        return first, await store.read(R1)

    return asyncio.run(scenario())


def types(log: list[EventRecord]) -> list[str]:
    return [record.event_type for record in log]


def test_the_report_is_recorded_once_before_the_run_starts(tmp_path: Path) -> None:
    run, log = opened(tmp_path)
    assert run.start is not None
    assert types(log) == ["RunQueued", "RunValidationReport"]
    report = msgspec.json.decode(log[1].payload)
    assert (report["planId"], report["adapter"], report["status"]) == ("w", "temporal", "VALID")


def test_a_run_that_does_with_less_says_so_in_its_report(tmp_path: Path) -> None:
    _, log = opened(tmp_path, "max_parallel: 1001", "fallback_behavior: degrade")
    report = msgspec.json.decode(log[1].payload)
    assert report["status"] == "WARNINGS"
    assert "at most 1000 tasks" in report["warnings"][0]["message"]


@pytest.mark.rule("G20")
@pytest.mark.parametrize("key", ["max_parallel: 1001", "engine: local"])
def test_a_run_that_the_engine_cannot_carry_out_fails_and_nothing_of_it_starts(
    key: str, tmp_path: Path
) -> None:
    run, log = opened(tmp_path, key)
    assert run.is_over
    assert types(log) == ["RunQueued", "RunFailed"]
    assert msgspec.json.decode(log[-1].payload)["error"]["code"] == "CAPABILITY_NOT_SUPPORTED"
