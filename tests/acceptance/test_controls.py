"""What people do to a run under way, from other terminals, with nothing running in between."""

import getpass
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def control(place: Place, command: str, *arguments: str, code: int = 0) -> str:
    done = place.run(command, place.run_id, *arguments, "--store", str(place.runs / "podium.db"), code=code)
    return done.stdout if code == 0 else done.stderr


def status_is(place: Place, status: str) -> bool:
    try:
        return bool(place.state()["status"] == status)
    except (OSError, ValueError):
        return False


WAITS = """
steps:
  - {name: A, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}
  - {name: B, command: [touch, second]}
"""


def begun(place: Place, text: str = WAITS) -> "subprocess.Popen[str]":
    place.write(text)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    return process


def test_a_paused_run_begins_nothing_new_until_it_may_go_on(place: Place) -> None:
    process = begun(place)
    control(place, "pause", "--reason", "lunch")
    until(lambda: status_is(place, "paused"))
    (place.folder / "go").touch()
    until(lambda: place.state()["steps"]["A"]["status"] == "completed")
    assert not (place.folder / "second").exists()
    why = place.run("why", place.run_id, "--store", str(place.runs / "podium.db")).stdout
    assert "pause" in why.lower()
    control(place, "unpause")
    code, _, err = ended(process)
    assert code == 0, err
    assert (place.folder / "second").exists()


@pytest.mark.rule("D31")
def test_resume_lets_a_paused_run_go_on_that_another_process_drives(place: Place) -> None:
    process = begun(place)
    control(place, "pause")
    until(lambda: status_is(place, "paused"))
    (place.folder / "go").touch()
    # It waits for the lock as any resume does; the run goes on meanwhile and may end before that.
    done = place.begin("resume", place.run_id, env={"PODIUM_LOCK_WAIT": "0.2"})
    assert ended(process)[0] == 0
    assert ended(done)[0] in (0, 64)


@pytest.mark.rule("D31")
def test_resume_takes_up_a_paused_run_that_nobody_drives(place: Place) -> None:
    process = begun(place)
    control(place, "pause")
    until(lambda: status_is(place, "paused"))
    process.kill()
    ended(process)
    (place.folder / "go").touch()
    place.run("resume", place.run_id)
    state = place.state()
    assert state["status"] == "completed"
    assert (place.folder / "second").exists()


def test_signals_are_kept_while_nobody_drives_the_run(place: Place) -> None:
    process = begun(place)
    process.kill()
    ended(process)
    control(place, "pause", "--reason", "not needed")
    control(place, "cancel", "--reason", "not needed")
    log = [event["eventType"] for event in place.events()]
    assert log.index("RunPaused") < log.index("RunCancelled")
    state = place.state()
    assert (state["status"], state["exit_code"]) == ("cancelled", 2)
    assert not place.processes()
    assert "ended" in control(place, "pause", code=64)
    length = len(place.events())
    said = place.run("cancel", place.run_id).stdout
    assert said == f"run {place.run_id} has already ended (cancelled); nothing was changed\n"
    assert len(place.events()) == length


def test_a_step_that_waits_for_its_next_try_is_tried_now_or_left_out(place: Place) -> None:
    text = """
    steps:
      - {name: A, command: [sh, -c, "touch begun; test -f go"], retry: {attempts: 3, delay: 60}}
      - {name: B, command: [sh, -c, "test -f never"], retry: {attempts: 3, delay: 60}}
      - {name: C, command: [touch, last]}
    """
    process = begun(place, text)
    until(lambda: any(event["eventType"] == "StepRetryScheduled" for event in place.events()))
    (place.folder / "go").touch()
    control(place, "retry-step", "A")
    until(lambda: any(e["eventType"] == "StepRetryScheduled" and e["stepId"] == "B" for e in place.events()))
    control(place, "skip-step", "B")
    code, _, err = ended(process)
    assert code == 0, err
    steps = place.state()["steps"]
    assert (steps["A"]["attempts"], steps["A"]["visits"]) == (2, 1)
    assert steps["B"]["skipped"]
    assert (place.folder / "last").exists()


@pytest.mark.parametrize(("answer", "code", "ran"), [("approve", 0, True), ("reject", 1, False)])
def test_an_approval_waits_for_a_person(place: Place, answer: str, code: int, ran: bool) -> None:
    place.write(
        """
        steps:
          - {name: Ask, approval: Deploy to production?}
          - {name: B, command: [touch, deployed]}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(lambda: status_is(place, "waiting"))
    control(place, answer, "Ask", "--by", "ann")
    found, out, err = ended(process)
    assert found == code, err
    assert "podium approve" in out, "what to call is said"
    assert (place.folder / "deployed").exists() is ran


def test_what_would_change_nothing_is_refused_at_once(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Ask
            approval: {message: Deploy?, form: {ticket: {type: string, required: true}}}
          - {name: B, command: [touch, deployed]}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: status_is(place, "waiting"))
    assert "the form needs the field 'ticket'" in control(place, "approve", "Ask", code=64)
    assert "'ticket' is not NAME=VALUE" in control(place, "approve", "Ask", "--field", "ticket", code=64)
    assert "no approval is pending there" in control(place, "reject", "B", code=64)
    assert "STEP_NOT_TERMINAL" in control(place, "retry-step", "B", code=64)
    assert "SignalAccepted" not in [event["eventType"] for event in place.events()]
    control(place, "approve", "--field", "ticket=T-1")
    assert ended(process)[0] == 0
    assert (place.folder / "deployed").exists()


@pytest.mark.rule("D28", "G23")
def test_cancel_from_another_terminal_is_noticed_during_a_step(place: Place) -> None:
    process = begun(place)
    control(place, "cancel")
    code, _, err = ended(process)
    assert code == 2, err
    assert not place.processes()


def test_several_terminals_at_once(place: Place) -> None:
    """Signals from five processes at once: all are in the log, and the run ends as the last of them says."""
    process = begun(place)
    several = [
        place.begin(command, place.run_id, "--store", str(place.runs / "podium.db"))
        for command in ("pause", "unpause", "pause", "unpause", "unpause")
    ]
    assert [ended(one)[0] for one in several] == [0] * 5
    control(place, "unpause")
    (place.folder / "go").touch()
    code, _, err = ended(process)
    assert code == 0, err
    assert [event["eventType"] for event in place.events()].count("SignalAccepted") == 6


def test_a_run_that_is_not_there_cannot_be_signalled(place: Place) -> None:
    process = begun(place)
    done = place.run("cancel", "nobody", "--store", str(place.runs / "podium.db"), code=64)
    assert "RUN_NOT_FOUND" in done.stderr
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2


@pytest.mark.rule("G23")
def test_who_stops_a_run_with_ctrl_c_is_in_its_log(place: Place) -> None:
    process = begun(place)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2
    (stop,) = [one["payload"] for one in place.events() if one["eventType"] == "SignalAccepted"]
    known = (stop["signalType"], stop["by"], stop["byMethod"], stop["byUid"])
    assert known == ("CANCEL", getpass.getuser(), "os-user", os.getuid())
