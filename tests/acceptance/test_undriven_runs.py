"""A run without a living driver says so wherever it is looked at, and can be cancelled all the same."""

import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

SLEEPS = """
steps:
  - {name: A, command: [sh, -c, "touch begun; sleep 60"]}
finally:
  - {name: Clean, command: [sh, -c, "echo cleaned >> cleaned"]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def begun(place: Place, **options: object) -> "subprocess.Popen[str]":
    place.write(SLEEPS)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet", **options)
    until((place.folder / "begun").exists)
    return process


def killed(place: Place) -> None:
    process = begun(place)
    process.kill()
    ended(process)


def types(place: Place) -> list[str]:
    return [event["eventType"] for event in place.events()]


def test_a_run_whose_driver_is_gone_says_so_at_once_everywhere(place: Place) -> None:
    killed(place)
    hint = f"; `podium resume {place.run_id}`"
    for command in (("why", place.run_id), ("runs", "list"), ("runs", "show", place.run_id)):
        shown = place.run(*command).stdout
        assert "no process has driven this run since 20" in shown, command
        assert hint in shown
    assert json.loads(place.run("why", place.run_id, "--json").stdout)["driven"] is False
    listed = json.loads(place.run("runs", "list", "--json").stdout)["runs"]
    assert listed[0]["driver"]["isAlive"] is False


@pytest.mark.parametrize("command", [("logs", "-f"), ("events", "--follow")])
def test_who_follows_a_run_is_told_that_its_driver_is_gone(place: Place, command: tuple[str, str]) -> None:
    process = begun(place)
    follower = place.begin(command[0], place.run_id, command[1])
    process.kill()
    ended(process)
    assert follower.stderr is not None
    assert "no process has driven this run since" in follower.stderr.readline()
    place.run("cancel", place.run_id)
    code, _, err = ended(follower)
    assert code == 0, err


def test_a_run_that_is_driven_names_its_driver(place: Place) -> None:
    process = begun(place)
    assert f"driver   process {process.pid} on " in place.run("runs", "show", place.run_id).stdout
    for command in (("why", place.run_id), ("runs", "list")):
        assert "no process" not in place.run(*command).stdout
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2


@pytest.mark.rule("D60", "D66", "G23")
def test_cancelling_a_run_that_no_process_drives_stops_its_processes_runs_finally_and_records_the_end(
    place: Place,
) -> None:
    killed(place)
    assert place.processes(), "the killed driver has left a process"
    done = place.run("cancel", place.run_id, "--reason", "gave up")
    assert "the run is cancelled" in done.stdout
    assert not place.processes()
    assert types(place)[-1] == "RunCancelled"
    assert place.state()["status"] == "cancelled"
    assert (place.folder / "cleaned").read_text() == "cleaned\n"


@pytest.mark.rule("D66")
def test_two_cancels_of_such_a_run_at_once_are_one(place: Place) -> None:
    killed(place)
    both = [place.begin("cancel", place.run_id) for _ in range(2)]
    said = []
    for one in both:
        code, out, err = ended(one)
        assert code == 0, err
        said.append("the run is cancelled" in out)
    # One that comes while the other already drives the run to its end asks as for any driven run, and leaves.
    assert any(said)
    log = types(place)
    assert log.count("SignalAccepted") == 1, "a second one would stop `finally`"
    assert log.count("RunCancelled") == 1
    assert (place.folder / "cleaned").read_text() == "cleaned\n"


def killed_in_finally(place: Place, cleaning: str) -> None:
    """A run whose driver was killed, and then the process that was cancelling it, in `finally`."""
    place.write(SLEEPS.replace("echo cleaned >> cleaned", f"touch cleaning; {cleaning}"))
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    process.kill()
    ended(process)
    first = place.begin("cancel", place.run_id)
    until((place.folder / "cleaning").exists)
    first.kill()
    ended(first)


def test_a_step_cannot_finish_a_cancel_of_its_own_run(place: Place) -> None:
    killed_in_finally(place, "sleep 60")
    own = {"PODIUM_RUN_ID": place.run_id}
    assert place.run("cancel", place.run_id, code=77, env=own).stderr.startswith("AUTHZ_DENIED: ")
    refused = place.events()[-1]
    assert (refused["eventType"], refused["payload"]["signalType"]) == ("SignalRejected", "CANCEL")
    for left in place.processes():
        os.kill(left, signal.SIGKILL)


@pytest.mark.rule("D66")
def test_a_cancel_that_was_killed_is_finished_by_the_next_and_finally_runs(place: Place) -> None:
    killed_in_finally(place, "test -f ok || sleep 60")
    (place.folder / "ok").touch()
    place.run("cancel", place.run_id)
    log = place.events()
    assert log[-1]["eventType"] == "RunCancelled"
    assert "_finally/Clean" in [event["stepId"] for event in log if event["eventType"] == "StepCompleted"]


def test_cancel_and_resume_at_once_end_in_a_cancelled_run(place: Place) -> None:
    killed(place)
    resumed = place.begin("resume", place.run_id, "-q")
    cancelled = place.begin("cancel", place.run_id)
    assert ended(cancelled)[0] == 0
    assert "RunCancelled" in types(place)
    if "RunReopened" in types(place):  # it looked when the run had been cancelled already
        resumed.send_signal(signal.SIGINT)
    assert ended(resumed)[0] in (2, 75, -signal.SIGINT, 130)


def test_cancelling_a_run_that_has_not_started_ends_it(place: Place) -> None:
    killed(place)
    with sqlite3.connect(place.runs / "podium.db") as database:
        database.execute("DELETE FROM events WHERE run_seq > 1")
        database.execute("UPDATE runs SET head = 1, status = 'PENDING'")
    place.run("cancel", place.run_id)
    assert types(place)[-1] == "RunCancelled"
    assert "StepStarted" not in types(place)


def test_what_is_left_on_another_host_is_named(place: Place) -> None:
    killed(place)
    with sqlite3.connect(place.runs / "podium.db") as database:
        database.execute("UPDATE leases SET owner = 'elsewhere:77:1:boot:1:x', expires = 0")
    place.file(".lock").unlink()
    told = place.run("cancel", place.run_id).stderr
    assert (
        "process 77 on elsewhere drove this run; processes of 'A' that still run there cannot be stopped"
        in told
    )


@pytest.mark.rule("D28")
def test_a_hangup_cancels_the_run_and_its_finally_runs_however_often_it_comes(place: Place) -> None:
    place.write(SLEEPS.replace("echo cleaned >> cleaned", "touch cleaning; sleep 1; touch cleaned"))
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    process.send_signal(signal.SIGHUP)
    until((place.folder / "cleaning").exists)
    process.send_signal(signal.SIGHUP)
    code, _, err = ended(process)
    assert code == 2, err
    assert (place.folder / "cleaned").exists(), "the second hangup did not stop it"
    assert place.state()["status"] == "cancelled"


@pytest.mark.rule("D28")
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_after_a_hangup_kills(place: Place, second: signal.Signals) -> None:
    place.write(SLEEPS.replace("echo cleaned >> cleaned", "touch cleaning; sleep 60 && touch cleaned"))
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    process.send_signal(signal.SIGHUP)
    until((place.folder / "cleaning").exists)
    process.send_signal(second)
    assert ended(process)[0] == 2
    assert not (place.folder / "cleaned").exists()


@pytest.mark.rule("D28")
def test_a_hangup_that_is_ignored_at_start_stays_ignored(place: Place) -> None:
    """As `nohup` does."""
    process = begun(place, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    place.run("why", place.run_id)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 2
