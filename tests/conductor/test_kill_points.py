"""Workers that are killed at exact points, each time between something that is recorded and what follows from it."""

import time

import msgspec
import pytest

from podium.testing.engine_promises.scenarios import ScriptedSignal
from tests.conductor.cases import Case
from tests.conductor.site import Site
from tests.engines.site import PATIENCE, WorkerProcess, until

STEPS = """
steps:
  - {name: A, command: [mark, "0.05"]}
  - {name: B, command: [mark, "0.1"]}
  - name: P
    parallel: [{name: C, command: [mark, "0.05"]}, {name: D, command: [mark, "0.2"]}]
  - {name: E, command: [mark, "0.05"]}
"""
QUESTION = """
steps:
  - {name: A, command: [mark, "0.05"]}
  - {name: Q, approval: {message: Continue?}}
  - {name: B, command: [mark, "0.05"]}
"""
DECIDES = ("--slots", "0")
CARRIES_OUT = ("--steps-only",)

pytestmark = pytest.mark.timeout(240, func_only=True)


@pytest.mark.rule("G13")
@pytest.mark.parametrize(
    "point",
    [
        "before start_attempt 2",
        "after start_attempt 2",
        "before append 3",
        "after append 3",
        "before report_end 1",
        "after report_end 1",
    ],
)
def test_a_worker_dies_and_another_one_continues(site: Site, point: str) -> None:
    worker = site.start_worker(fault=f"die {point}")
    case = Case(site, STEPS)
    wait_for_death(worker)
    continue_with(case)


@pytest.mark.rule("G13")
@pytest.mark.parametrize("point", ["before hand_out 2", "after hand_out 2", "before hand_out 4"])
def test_a_decider_dies_between_the_start_of_a_step_and_its_hand_out(site: Site, point: str) -> None:
    site.start_worker(*CARRIES_OUT)
    worker = site.start_worker(*DECIDES, fault=f"die {point}")
    case = Case(site, STEPS)
    wait_for_death(worker)
    continue_with(case, *DECIDES)
    assert case.marks.count("begin") == 5


@pytest.mark.rule("G13")
@pytest.mark.parametrize(
    ("point", "times"), [("before append 1", 2), ("after append 1", 1), ("before report 1", 1)]
)
def test_a_worker_dies_between_the_end_of_a_step_and_its_report(site: Site, point: str, times: int) -> None:
    site.start_worker(*DECIDES)
    worker = site.start_worker(*CARRIES_OUT, fault=f"die {point}")
    case = Case(site, STEPS)
    wait_for_death(worker)
    continue_with(case, *CARRIES_OUT)
    assert case.marks.count("end", "A") == times


@pytest.mark.rule("G13")
@pytest.mark.parametrize(
    "point", ["before claim 2", "after claim 2", "before give_back 1", "after give_back 1"]
)
@pytest.mark.parametrize("answer", ["at once", "later"])
def test_a_worker_dies_while_it_gives_a_run_back(site: Site, point: str, answer: str) -> None:
    worker = site.start_worker(fault=f"die {point}")
    case = Case(site, QUESTION)
    signal = ScriptedSignal("StepStarted Q", "APPROVE", {"stepId": "Q"})
    case.scenario = msgspec.structs.replace(case.scenario, signals=(signal,))
    wait_for_death(worker)
    if answer == "at once":
        site.send(case.run_id, "APPROVE", stepId="Q")
        continue_with(case)
    else:
        site.start_worker()
        time.sleep(12)  # until the server has noticed, and another worker has given it back
        sent = time.time()
        site.send(case.run_id, "APPROVE", stepId="Q")
        case.wait_for_event("StepStarted B")
        print(f"continued after {time.time() - sent:.1f} s")
        case.finish()


def wait_for_death(worker: WorkerProcess) -> None:
    until(lambda: not worker.is_alive, "the worker to be killed", 2 * PATIENCE)


def continue_with(case: Case, *options: str) -> None:
    killed = time.time()
    case.site.start_worker(*options)
    ready = time.time()
    case.finish()
    print(
        f"ended {time.time() - killed:.1f} s after the kill, {time.time() - ready:.1f} s after a worker was ready"
    )
