"""Runs of a pool on the command line: hosts carry them out, and every command for a run works without its directory."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

WAITS = """\
version: 2.0
name: waits
steps:
  - name: ask
    approval: {message: "Continue?"}
  - name: after
    set: {done: true}
"""
SLEEPS = """\
version: 2.0
name: sleeps
steps:
  - name: first
    shell: echo one
  - name: second
    shell: sleep 600
"""
SLOW = """\
version: 2.0
name: slow
steps:
  - name: slow
    shell: sleep 3
  - name: after
    set: {done: true}
"""
LIMIT = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["PODIUM_LEASE"] = "2"
    return place


@contextlib.contextmanager
def host(place: Place) -> Iterator["subprocess.Popen[str]"]:
    process = place.begin("worker", "--engine", "local", "--pool", "p", "--drain", "1")
    try:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=LIMIT)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def create(place: Place, workflow: str, run_id: str) -> None:
    place.write(workflow)
    left = place.run("run", "w.yaml", "--pool", "p", "--run-id", run_id, "--no-wait", code=5)
    assert f"`podium events {run_id} --follow`" in left.stdout
    assert "podium resume" not in left.stdout


def status(place: Place, run_id: str) -> str:
    return place.run("runs", "show", run_id).stdout.lower()


def test_a_run_of_a_pool_is_followed_to_its_end(place: Place) -> None:
    place.write("version: 2.0\nname: short\nsteps:\n  - name: a\n    set: {x: 1}\n")
    with host(place):
        place.run("run", "w.yaml", "--pool", "p", "--run-id", "r1")
    assert "completed" in place.run("why", "r1").stdout
    assert not (place.runs / "r1").exists()


def test_a_waiting_run_is_parked_and_continues_when_it_is_approved(place: Place) -> None:
    with host(place):
        create(place, WAITS, "r1")
        until(lambda: "ask" in place.run("why", "r1").stdout)
        assert "r1" in place.run("runs", "list").stdout
        place.run("approve", "r1", "ask")
        until(lambda: "completed" in status(place, "r1"))
    place.run("logs", "r1")
    assert not (place.runs / "r1").exists()


def test_a_run_of_a_pool_is_paused_resumed_and_cancelled(place: Place) -> None:
    with host(place):
        create(place, WAITS, "r1")
        until(lambda: "ask" in place.run("why", "r1").stdout)
        place.run("pause", "r1")
        until(lambda: "paused" in status(place, "r1"))
        place.run("signal", "r1", "RESUME")
        until(lambda: "paused" not in status(place, "r1"))
        place.run("cancel", "r1")
        until(lambda: "cancelled" in status(place, "r1"))


def test_a_queued_run_is_cancelled_by_the_first_host(place: Place) -> None:
    create(place, WAITS, "r1")
    place.run("cancel", "r1")
    with host(place):
        until(lambda: "cancelled" in status(place, "r1"))


def test_another_host_continues_the_runs_of_one_that_was_killed(place: Place) -> None:
    with host(place) as first:
        create(place, SLEEPS, "r1")
        until(lambda: "second" in place.run("why", "r1").stdout)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(LIMIT)
    with host(place):
        until(lambda: len([e for e in place.events("r1") if e["eventType"] == "StepStarted"]) >= 2)
        place.run("cancel", "r1")
        until(lambda: "cancelled" in status(place, "r1"))
    starts = [one for one in place.events("r1") if one["eventType"] == "StepCompleted"]
    assert [one["stepId"] for one in starts] == ["first"]


def test_a_failed_run_of_a_pool_is_resumed_there(place: Place) -> None:
    place.write("version: 2.0\nname: fails\nsteps:\n  - name: a\n    shell: test -e marker\n")
    with host(place):
        place.run("run", "w.yaml", "--pool", "p", "--run-id", "r1", code=1)
        (place.folder / "marker").touch()
        place.run("resume", "r1")
    assert "completed" in status(place, "r1")


def test_a_worker_of_pools_needs_a_slot(place: Place) -> None:
    said = place.run("worker", "--slots", "0", "--pool", "p", code=64).stderr
    assert "write --slots 1 or more, or leave it out for 256" in said
    assert "0 is for --engine conductor" in said


def test_a_pool_needs_the_local_engine(place: Place) -> None:
    for option in ("--pool", "--tenant"):
        assert option in place.run("worker", "--engine", "temporal", option, "p", code=64).stderr


def starts(place: Place, run_id: str) -> list[str]:
    return [str(one["stepId"]) for one in place.events(run_id) if one["eventType"] == "StepStarted"]


def test_a_run_of_a_pool_is_stopped_by_force(place: Place) -> None:
    with host(place):
        create(place, SLEEPS, "r1")
        until(lambda: "second" in starts(place, "r1"))
        place.run("signal", "r1", "EMERGENCY_STOP", "--reason", "wrong account")
        until(lambda: "cancelled" in status(place, "r1"))


def test_a_step_in_doubt_after_a_kill_waits_for_a_decision_on_the_next_host(place: Place) -> None:
    workflow = (
        "version: 2.0\nname: once\nsteps:\n"
        "  - name: pay\n    shell: echo paid >> ledger; test -e continue || sleep 600\n    idempotent: false\n"
    )
    with host(place) as first:
        create(place, workflow, "r1")
        until((place.folder / "ledger").exists)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(LIMIT)
    (place.folder / "continue").touch()
    with host(place):
        until(lambda: "doubt" in place.run("why", "r1").stdout.lower())
        assert (place.folder / "ledger").read_text() == "paid\n"
        place.run("signal", "r1", "RETRY_STEP", "--payload", '{"stepId": "pay"}')
        until(lambda: "completed" in status(place, "r1"))
    assert (place.folder / "ledger").read_text() == "paid\npaid\n"


def test_a_host_that_was_frozen_beyond_its_lease_writes_nothing_to_runs_that_another_has(
    place: Place,
) -> None:
    place.environment["PODIUM_LEASE"] = "1"
    with host(place) as first:
        create(place, SLOW, "r1")
        until(lambda: "slow" in starts(place, "r1"))
        os.kill(first.pid, signal.SIGSTOP)
        try:
            with host(place):
                until(lambda: "completed" in status(place, "r1"))
                head = len(place.events("r1"))
                os.kill(first.pid, signal.SIGCONT)
                create(place, WAITS, "r2")
                until(lambda: "ask" in place.run("why", "r2").stdout)
                assert len(place.events("r1")) == head
        finally:
            os.kill(first.pid, signal.SIGCONT)
    ends = [one["stepId"] for one in place.events("r1") if one["eventType"] == "StepCompleted"]
    assert ends.count("slow") == 1


def test_a_run_that_failed_before_its_start_starts_when_it_is_resumed(place: Place) -> None:
    workspace = place.folder / "ws"
    workspace.mkdir()
    place.write("version: 2.0\nname: short\nsteps:\n  - name: a\n    shell: pwd\n")
    place.run("run", "w.yaml", "--pool", "p", "--run-id", "r1", "--workspace", "ws", "--no-wait", code=5)
    workspace.rmdir()
    with host(place):
        until(lambda: "failed" in status(place, "r1"))
        workspace.mkdir()
        place.run("resume", "r1")
    assert "completed" in status(place, "r1")


def test_a_run_that_was_cancelled_in_the_queue_starts_when_it_is_resumed(place: Place) -> None:
    create(place, "version: 2.0\nname: short\nsteps:\n  - name: a\n    set: {x: 1}\n", "r1")
    place.run("cancel", "r1")
    with host(place):
        until(lambda: "cancelled" in status(place, "r1"))
        place.run("resume", "r1")
    assert "completed" in status(place, "r1")


def test_a_reopened_run_says_that_it_has_not_started_while_there_is_no_host(place: Place) -> None:
    create(place, WAITS, "r1")
    place.run("cancel", "r1")
    with host(place):
        until(lambda: "cancelled" in status(place, "r1"))
    left = place.run("resume", "r1", "--no-wait", code=5)
    assert "waiting for a host of pool p" in left.stdout
    why = place.run("why", "r1").stdout
    assert "the run has not started" in why
    assert "podium worker --pool p" in why


def test_a_run_whose_host_was_killed_is_not_waited_for_without_another(place: Place) -> None:
    with host(place) as only:
        create(place, SLEEPS, "r1")
        until(lambda: "second" in starts(place, "r1"))
        os.kill(only.pid, signal.SIGKILL)
        only.wait(LIMIT)
    left = place.run("resume", "r1", "--no-wait", code=5)
    assert "waiting for a host of pool p" in left.stdout
    assert "podium worker --pool p" in place.run("why", "r1").stdout
    place.run("cancel", "r1")
    with host(place):
        until(lambda: "cancelled" in status(place, "r1"))


def test_a_third_interrupt_leaves_a_run_that_no_host_stops(place: Place) -> None:
    place.write(SLEEPS)
    follower = place.begin("run", "w.yaml", "--pool", "p", "--run-id", "r1")
    assert follower.stdout is not None
    assert "run r1" in follower.stdout.readline()
    for asked in (1, 2):
        follower.send_signal(signal.SIGINT)
        until(lambda asked=asked: signals(place, "r1") == asked)  # type: ignore[misc]
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=LIMIT)
    assert follower.returncode == 5
    with host(place):
        until(lambda: "cancelled" in status(place, "r1"))


def signals(place: Place, run_id: str) -> int:
    return sum(one["eventType"] == "SignalAccepted" for one in place.events(run_id))
