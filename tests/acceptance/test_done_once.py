"""With real processes: what is recorded as done is not done again, and what was stopped in doubt is asked about."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def starts(place: Place) -> list[tuple[str, str]]:
    return [(event["eventType"], event.get("stepId", "")) for event in place.events()]


@pytest.mark.rule("G13", "G51")
def test_steps_that_complete_while_their_run_is_being_cancelled_are_not_done_again(place: Place) -> None:
    wait = "until test -f go; do sleep 0.02; done"
    place.write(f"""
        steps:
          - name: P
            parallel:
              - {{name: A, command: [sh, -c, "echo A >> story; {wait}"], idempotent: false}}
              - {{name: B, command: [sh, -c, "echo B >> story; {wait}"]}}
          - {{name: C, command: [sh, -c, "echo C >> story"]}}
        """)
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: (place.folder / "story").exists() and len(_story(place)) == 2)
    driver.send_signal(
        signal.SIGSTOP
    )  # the cancel is in the log before the driver knows that the steps have ended
    place.run("cancel", place.run_id)
    (place.folder / "go").touch()
    until(lambda: not place.processes())
    driver.send_signal(signal.SIGCONT)
    assert ended(driver)[0] == 2
    assert {("StepCompleted", "P/A"), ("StepCompleted", "P/B")} <= set(starts(place))
    place.run("resume", place.run_id)
    assert sorted(_story(place)) == ["A", "B", "C"]


@pytest.mark.rule("G13")
@pytest.mark.parametrize("how", ["cancel", "SIGTERM", "SIGINT", "SIGKILL"])
def test_a_stopped_step_that_must_not_be_repeated_is_asked_about_however_it_was_stopped(
    place: Place, how: str
) -> None:
    place.write("""
        steps:
          - name: Pay
            command: [sh, -c, "echo Pay >> story; sleep 60"]
            idempotent: false
            on_doubt: ask
        """)
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "story").exists)
    _stop(place, driver, how)
    left = place.run("resume", place.run_id, "--no-wait", code=5).stdout
    assert "it is not known whether it happened" in left
    place.run("approve", place.run_id, "Pay")
    place.run("resume", place.run_id)
    assert _story(place) == ["Pay"]
    assert place.state()["status"] == "completed"


def _stop(place: Place, driver: "subprocess.Popen[str]", how: str) -> None:
    if how == "cancel":
        place.run("cancel", place.run_id)
    else:
        driver.send_signal(getattr(signal, how))
    ended(driver)


@pytest.mark.rule("G14")
def test_nothing_starts_after_a_pause_also_what_waits_for_a_free_slot(place: Place) -> None:
    steps = "\n".join(
        f"              - {{name: S{n}, command: [sh, -c, 'touch begun{n}; until test -f go; do sleep 0.02; done']}}"
        for n in range(8)
    )
    place.write(f"""
        max_parallel: 3
        steps:
          - name: P
            parallel:
{steps}
        """)
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: len(list(place.folder.glob("begun*"))) == 3)
    place.run("pause", place.run_id)
    until(lambda: ("RunPaused", "") in starts(place))
    (place.folder / "go").touch()
    until(lambda: sum(event == "StepCompleted" for event, _ in starts(place)) == 3)
    place.run("resume", place.run_id)
    assert ended(driver)[0] == 0
    log = starts(place)
    paused, resumed = log.index(("RunPaused", "")), log.index(("RunResumed", ""))
    started = [place for place, (event, step) in enumerate(log) if event == "StepStarted" and "/" in step]
    assert [place for place in started if paused < place < resumed] == []
    assert len(started) == 8


def _story(place: Place) -> list[str]:
    return (place.folder / "story").read_text().split()
