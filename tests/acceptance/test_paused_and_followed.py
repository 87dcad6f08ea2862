"""A run that is paused, or that another process drives, never leaves the person who looks on without a hint."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

STEPS = """
steps:
  - {name: A, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}
  - {name: B, command: [touch, second]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def begun(place: Place, text: str = STEPS, **options: object) -> "subprocess.Popen[str]":
    place.write(text)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet", **options)
    until((place.folder / "begun").exists)
    return process


def paused_without_a_record_of_it(place: Place) -> None:
    """The driver is killed between the PAUSE and its RunPaused."""
    driver = begun(place)
    driver.send_signal(signal.SIGSTOP)
    place.run("pause", place.run_id)
    driver.kill()
    ended(driver)
    (place.folder / "go").touch()


def test_resume_continues_a_run_whose_driver_was_killed_before_it_recorded_the_pause(place: Place) -> None:
    paused_without_a_record_of_it(place)
    place.run("resume", place.run_id, "--quiet")
    assert place.state()["status"] == "completed"


def test_resume_leaves_a_run_that_was_asked_to_continue_before_as_it_is(place: Place) -> None:
    paused_without_a_record_of_it(place)
    place.run("unpause", place.run_id)
    place.run("resume", place.run_id, "--quiet")
    accepted = [one for one in place.events() if one["eventType"] == "SignalAccepted"]
    assert [one["payload"]["signalType"] for one in accepted] == ["PAUSE", "RESUME"]


def test_a_run_that_is_paused_while_its_steps_still_run_says_how_to_continue_it(place: Place) -> None:
    driver = begun(place)
    place.run("pause", place.run_id)
    assert driver.stderr is not None
    assert "the run is paused" in driver.stderr.readline()
    assert f"podium resume {place.run_id}" in driver.stderr.readline()
    (place.folder / "go").touch()
    place.run("unpause", place.run_id)
    assert ended(driver)[0] == 0


def test_who_follows_a_run_with_a_frozen_driver_is_told_once(place: Place) -> None:
    driver = begun(place, env={"PODIUM_LEASE": "1"})
    follower = place.begin("events", place.run_id, "--follow")
    driver.send_signal(signal.SIGSTOP)
    assert follower.stderr is not None
    assert "no process has driven this run since" in follower.stderr.readline()
    time.sleep(1)  # it looks every 0.2 seconds
    driver.send_signal(signal.SIGCONT)
    (place.folder / "go").touch()
    ended(driver)
    _, _, err = ended(follower)
    assert "no process has driven this run since" not in err


def test_who_follows_a_resumed_run_is_shown_what_it_asks(place: Place) -> None:
    driver = begun(place, STEPS + '  - {name: Ask, approval: {message: "Ship it?"}}\n')
    place.run("pause", place.run_id)
    until(lambda: place.state()["status"] == "paused")
    follower = place.begin("resume", place.run_id)
    (place.folder / "go").touch()
    assert follower.stdout is not None
    shown = [follower.stdout.readline()]
    while shown[-1] and "podium approve" not in shown[-1]:
        shown.append(follower.stdout.readline())
    assert any("step 'Ask' waits for a person: Ship it?" in line for line in shown)
    place.run("approve", place.run_id)
    assert ended(follower)[0] == 0
    assert ended(driver)[0] == 0
