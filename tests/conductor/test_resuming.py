"""Runs on Conductor that have failed or were cancelled, and runs that have no execution."""

import subprocess

import pytest

from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import PODIUM, until

FAILS = """
version: "2.0"
name: w
steps:
  - {name: A, command: [touch, a.txt]}
  - {name: F, command: [test, -e, flag.txt]}
  - {name: Z, command: ["true"]}
"""
WAITS = 'version: "2.0"\nname: w\nsteps: [{name: Ask, approval: go}, {name: Z, command: ["true"]}]\n'


def _places(site: Site) -> list[str]:
    return ["--store", site.store, "--runs", str(site.runs)]


@pytest.fixture
def by_hand(site: Site) -> ByHand:
    site.start_worker()
    site.start_worker()
    return ByHand(site)


@pytest.mark.rule("CN06")
def test_a_failed_run_is_resumed_in_the_execution_that_it_had(site: Site, by_hand: ByHand) -> None:
    assert site.begin(FAILS, "r").wait() == 1
    by_hand.wait_for_status("r", "FAILED")
    first = by_hand.execution_id("r")
    reason = by_hand.execution("r").reason_for_incompletion or ""
    assert "Podium: EXIT_CODE: step 'F' failed" in reason
    assert "`podium resume r`" in reason
    (site.workspace / "flag.txt").touch()
    site.podium("resume", "r", *_places(site))
    events = site.events_of("r")
    assert events[-1] == "RunCompleted"
    assert (events.count("StepStarted A"), events.count("StepStarted F")) == (1, 2)
    by_hand.wait_for_status("r", "COMPLETED")
    assert by_hand.execution_id("r") == first


@pytest.mark.rule("CN06")
@pytest.mark.parametrize("how", ["by a signal", "in Conductor", "while it was paused"])
def test_a_cancelled_run_is_resumed_and_not_cancelled_again(site: Site, by_hand: ByHand, how: str) -> None:
    client = site.begin(WAITS, "r")
    site.wait_for("r", "StepStarted Ask")
    if how == "in Conductor":
        by_hand.terminate("r")
    else:
        if how == "while it was paused":
            site.send("r", "PAUSE")
            by_hand.wait_for_status("r", "PAUSED")
        site.send("r", "CANCEL", reason="not now")
    assert client.wait() == 2
    by_hand.wait_for_status("r", "TERMINATED")
    resumed = subprocess.Popen(
        [*PODIUM, "resume", "r", *_places(site)],
        cwd=site.workspace,
        env=site.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    site.wait_for("r", "StepStarted Ask", 2)
    by_hand.wait_for_status("r", "RUNNING")
    site.send("r", "APPROVE", stepId="Ask")
    assert resumed.wait(90) == 0
    by_hand.wait_for_status("r", "COMPLETED")
    assert site.events_of("r").count("RunCancelled") == 1


@pytest.mark.rule("CN06")
def test_a_client_that_is_killed_before_it_starts_the_execution_is_replaced_by_a_worker(
    site: Site, by_hand: ByHand
) -> None:
    """As after a kill between the two: the reopening is in the log, and the execution has ended."""
    assert site.begin(FAILS, "r").wait() == 1
    by_hand.wait_for_status("r", "FAILED")
    (site.workspace / "flag.txt").touch()
    code = (
        "import os, sys; from podium.engines.conductor.engine import ConductorEngine as E; "
        "E.start_execution = lambda *a: os._exit(9); from podium.cli import main; main()"
    )
    done = subprocess.run(
        [PODIUM[0], "-c", code, "resume", "r", *_places(site)],
        cwd=site.workspace,
        env=site.environment,
        check=False,
        timeout=90,
    )
    assert done.returncode == 9
    site.wait_for("r", "RunCompleted")
    by_hand.wait_for_status("r", "COMPLETED")


@pytest.mark.rule("CN06")
def test_a_run_whose_client_is_killed_before_it_starts_it_is_started_by_a_worker(
    site: Site, by_hand: ByHand
) -> None:
    code = (
        "import os, sys; from podium.engines.conductor.engine import ConductorEngine as E; "
        "E.start_execution = lambda *a: os._exit(9); from podium.cli import main; main()"
    )
    (site.workspace / "flag.txt").touch()
    file = site.workspace / "r.yaml"
    file.write_text(FAILS)
    done = subprocess.run(
        [PODIUM[0], "-c", code, "run", str(file), "--run-id", "r", *site.options],
        cwd=site.workspace,
        env=site.environment,
        check=False,
        timeout=90,
    )
    assert done.returncode == 9
    site.wait_for("r", "RunCompleted")
    by_hand.wait_for_status("r", "COMPLETED")
    assert site.events_of("r").count("StepStarted A") == 1


@pytest.mark.rule("CN06")
def test_two_who_resume_a_failed_run_reopen_it_once(site: Site, by_hand: ByHand) -> None:
    assert site.begin(FAILS, "r").wait() == 1
    (site.workspace / "flag.txt").touch()
    command = [*PODIUM, "resume", "r", *_places(site)]
    both = [
        subprocess.Popen(
            command,
            cwd=site.workspace,
            env=site.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    codes = sorted(one.wait(90) for one in both)
    assert codes[0] == 0
    assert codes[1] in (0, 64, 75)
    assert site.events_of("r").count("RunReopened") == 1
    by_hand.wait_for_status("r", "COMPLETED")
    until(lambda: all(not one.is_open for one in by_hand.executions_of("r")), "other executions to end")


@pytest.mark.rule("CN06")
def test_a_completed_run_is_not_resumed(site: Site, by_hand: ByHand) -> None:
    (site.workspace / "flag.txt").touch()
    assert site.begin(FAILS, "r").wait() == 0
    assert "RUN_COMPLETED" in site.podium("resume", "r", *_places(site), code=64).stderr
    by_hand.wait_for_status("r", "COMPLETED")
