"""`state.json`, snapshots, templates and the machine say the same of every step and every iteration."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from podium.log.events import EventRecord
from podium.machine.commands import RunTask
from podium.plan.plan import Plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.state_file import StateFile
from podium.runtime.tasks.order import TaskResult, completed, failed
from tests.acceptance.podium import Place
from tests.torture.driving import Torture
from tests.torture.views import views_agree
from tests.unit.driving.scripted import Scripted, ScriptedTasks, memory
from tests.unit.machine.hosting import plan_of

pytestmark = pytest.mark.rule("D59")


@pytest.mark.parametrize("part", range(10))
def test_views_agree_after_random_runs(part: int) -> None:
    for seed in range(20_000 + 10 * part, 20_010 + 10 * part):
        # Compares all views at its end.
        Torture(seed).run()


class RandomTasks(ScriptedTasks):
    """What a task answers depends on its path, attempt and seed alone."""

    seed = 0

    def result_of(self, task: RunTask) -> TaskResult | None:
        random = Random(f"{self.seed} {task.path} {task.attempt}")
        if random.random() < 0.6:
            return completed(output=task.path)
        return failed(random.choice([1, 3]), "EXIT_CODE", "it failed")


@pytest.mark.parametrize("seed", range(30))
def test_views_agree_with_a_real_driver(seed: int, tmp_path: Path) -> None:
    plan = plan_of(
        """
        steps:
          - name: L
            allow_failure: true
            retry: {attempts: 2, delay: 0}
            for_each:
              items: [1, 2, 3]
              parallel: true
              steps:
                - {name: A, command: [x], retry: {attempts: 2, delay: 0}}
                - {name: B, command: [x], allow_failure: true}
                - {name: C, command: [x], on: {failure: {goto: _loop_continue}}}
          - name: W
            allow_failure: true
            repeat_until:
              condition: {step_ok: D}
              max_iterations: 3
              steps:
                - {name: E, command: [x]}
                - {name: D, command: [x], retry: {attempts: 2, delay: 0}}
          - name: P
            allow_failure: true
            parallel:
              - {name: X, for_each: {items: [1, 2], steps: [{name: I, command: [x]}]}, join: {wait_for: any}}
              - {name: Y, command: [x]}
        """
    )
    state, log = asyncio.run(_driven(plan, seed, tmp_path))
    views_agree(plan, log)
    assert state["status"] in ("completed", "failed")
    for loop in [state["steps"].get(name) for name in ("L", "W")]:
        if loop is None:
            continue
        counted = [one["status"] for one in loop["iterations"]]
        assert counted.count("completed") == loop["summary"]["success_count"]
        assert counted.count("failed") == loop["summary"]["failure_count"]
        assert counted.count("skipped") == loop["summary"]["skipped_count"]


async def _driven(plan: Plan, seed: int, folder: Path) -> tuple[dict[str, Any], list[EventRecord]]:
    """The file as the driver leaves it, told of many events at a time."""
    tasks = RandomTasks()
    tasks.seed = seed
    run = await Scripted(plan, memory(), tasks=tasks).create()
    directory = RunDirectory(folder, "r1")
    directory.make()
    run.state_views.append(StateFile(directory, plan, "r1"))
    await run.drive()
    return json.loads(directory.state.read_bytes()), await run.log()


def test_an_iteration_whose_step_succeeded_on_retry_is_completed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        """
        steps:
          - name: L
            for_each:
              items: [1, 2]
              parallel: true
              steps:
                - name: A
                  command: [sh, -c, 'test "$PODIUM_ATTEMPT" -ge 2']
                  retry: {attempts: 2, delay: 0}
        """
    )
    place.run("run", "w.yaml", "-q", "--run-id", place.run_id)
    state = json.loads((place.runs / place.run_id / "state.json").read_text())
    assert [one["status"] for one in state["steps"]["L"]["iterations"]] == ["completed", "completed"]
