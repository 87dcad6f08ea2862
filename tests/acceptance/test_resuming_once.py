"""`resume` does what it was asked for when it looked at the run, and once, however many ask for the same."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def types(place: Place) -> list[str]:
    return [event["eventType"] for event in place.events()]


def paused_after_its_first_step(place: Place, second: str) -> "subprocess.Popen[str]":
    place.write(f"""
        steps:
          - {{name: A, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}}
          - {{name: B, command: [sh, -c, "echo B >> story; {second}"]}}
        """)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    place.run("pause", place.run_id)
    until(lambda: place.state()["status"] == "paused")
    (place.folder / "go").touch()
    until(lambda: place.state()["steps"]["A"]["status"] == "completed")
    return process


@pytest.mark.rule("D31", "G51")
@pytest.mark.parametrize(("second", "code"), [("sleep 1; exit 0", 0), ("sleep 1; exit 1", 1)])
def test_a_paused_run_that_another_process_drives_is_followed_to_its_end_and_never_reopened(
    place: Place, second: str, code: int
) -> None:
    driver = paused_after_its_first_step(place, second)
    followed = place.run("resume", place.run_id, code=code)
    assert ended(driver)[0] == code
    assert "B" in followed.stdout, "its progress is shown"
    assert f"process {driver.pid} on " in followed.stderr
    assert "RunReopened" not in types(place)
    assert (place.folder / "story").read_text() == "B\n"


@pytest.mark.rule("D31")
def test_a_paused_run_whose_driver_dies_while_it_is_followed_is_taken_over(place: Place) -> None:
    driver = paused_after_its_first_step(place, "test -f second || { touch second; sleep 60; }")
    following = place.begin("resume", place.run_id)
    until((place.folder / "second").exists)
    driver.kill()
    ended(driver)
    code, _, err = ended(following)
    assert code == 0, err
    assert place.state()["status"] == "completed"


@pytest.mark.rule("D31")
def test_resuming_a_run_that_is_driven_and_not_paused_is_refused(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'touch begun; until test -f go; do sleep 0.02; done']}]")
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    refused = place.run("resume", place.run_id, code=75, env={"PODIUM_LOCK_WAIT": "0.5"})
    assert f"process {driver.pid} on " in refused.stderr
    (place.folder / "go").touch()
    assert ended(driver)[0] == 0


@pytest.mark.rule("G51")
def test_a_run_that_fails_while_a_resume_waits_for_it_is_not_reopened(place: Place) -> None:
    place.write(
        "steps: [{name: A, command: [sh, -c, 'touch begun; until test -f go; do sleep 0.02; done; exit 1']}]"
    )
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    waiting = place.begin("resume", place.run_id, env={"PODIUM_LOCK_WAIT": "30"})
    first_line = waiting.stdout.readline() if waiting.stdout is not None else ""
    assert place.run_id in first_line, "it has looked at the run"
    (place.folder / "go").touch()
    assert ended(driver)[0] == 1
    code, _, err = ended(waiting)
    assert code == 75, err
    assert "has ended (failed)" in err
    assert "RunReopened" not in types(place)


@pytest.mark.rule("G51")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("time", range(3))
def test_of_several_that_resume_a_failed_run_one_reopens_it_and_the_others_name_it(
    place: Place, time: int
) -> None:
    # The step takes a while, so that the others wait, and fails again, so that they could reopen it once more.
    place.write("steps: [{name: A, command: [sh, -c, 'echo A >> story; sleep 0.3; exit 1']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    several = [place.begin("resume", place.run_id, "-q") for _ in range(3)]
    done = {one.pid: ended(one, 60) for one in several}
    codes = sorted(code for code, _, _ in done.values())
    # One that only looked after the winner's end saw another end than the first; it may reopen that.
    reopenings = types(place).count("RunReopened")
    assert reopenings == codes.count(1), done
    assert codes.count(1) + codes.count(75) == 3, done
    assert (place.folder / "story").read_text().count("A") == 1 + reopenings
    for pid, (code, _, err) in done.items():
        if code == 75:
            assert any(f"process {other} on " in err for other in done if other != pid), err


@pytest.mark.rule("G51")
def test_a_reopening_names_the_end_it_was_decided_on(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'exit 1']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    for _ in range(2):
        place.run("resume", place.run_id, code=1)
    log = place.events()
    ends = [event["runSeq"] for event in log if event["eventType"] == "RunFailed"]
    reopened = [event for event in log if event["eventType"] == "RunReopened"]
    assert [event["payload"]["terminalSeq"] for event in reopened] == ends[:2]
    assert [event["logicalAttemptId"] for event in reopened] == [2, 3]
