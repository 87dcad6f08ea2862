"""`resume` of a run that ends again immediately: nothing is done twice, and the user learns why and what to do."""

import signal
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

STRICT = """
    strict_flow: true
    steps:
      - {{name: A, command: [sh, -c, "echo A >> story"], on: {{success: {{goto: B}}}}}}
      - {{name: B, command: [sh, -c, "echo B >> story"], on: {{{handlers}}}}}
      - {{name: C, command: [sh, -c, "echo C >> story"], on: {{success: {{goto: _end}}}}}}
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def story(place: Place) -> list[str]:
    return (place.folder / "story").read_text().split()


@pytest.mark.rule("G51")
def test_a_completed_step_without_a_transition_is_not_done_again_and_the_user_learns_what_to_do(
    place: Place,
) -> None:
    place.write(STRICT.format(handlers="failure: {goto: C}"))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=4)
    for _ in range(2):
        shown = place.run("resume", place.run_id, code=4).stdout
        assert "the run ended again immediately; no step ran:" in shown
        assert "step 'B' completed and has no transition" in shown
        assert f"podium resume {place.run_id} --workflow FILE --force" in shown
        assert f"podium rerun {place.run_id} --from B" in shown
    assert story(place) == ["A", "B"]
    assert "step 'B' completed and has no transition" in place.run("why", place.run_id).stdout


@pytest.mark.rule("D31", "G51")
def test_a_run_continues_behind_a_completed_step_when_the_workflow_gets_a_handler_for_it(
    place: Place,
) -> None:
    place.write(STRICT.format(handlers="failure: {goto: C}"))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=4)
    place.run("resume", place.run_id, code=4)
    place.write(STRICT.format(handlers="success: {goto: C}"), "fixed.yaml")
    place.run("resume", place.run_id, "--workflow", "fixed.yaml", "--force")
    assert story(place) == ["A", "B", "C"]
    assert place.state()["status"] == "completed"


@pytest.mark.rule("D31")
def test_a_changed_workflow_is_refused_if_what_came_before_the_end_does_not_fit(place: Place) -> None:
    place.write(STRICT.format(handlers="failure: {goto: C}"))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=4)
    other = STRICT.format(handlers="success: {goto: C}").replace("{goto: B}", "{goto: C}")
    place.write(other, "other.yaml")
    refused = place.run("resume", place.run_id, "--workflow", "other.yaml", "--force", code=65)
    assert "WORKFLOW_CHANGED" in refused.stderr


@pytest.mark.rule("D31")
def test_a_changed_workflow_is_refused_if_finally_ran_after_the_outcome(place: Place) -> None:
    cleanup = '\nfinally: [{name: F, command: [sh, -c, "echo F >> story"]}]\n'
    place.write(_dedented(STRICT.format(handlers="failure: {goto: C}")) + cleanup)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=4)
    place.write(_dedented(STRICT.format(handlers="success: {goto: C}")) + cleanup, "fixed.yaml")
    refused = place.run("resume", place.run_id, "--workflow", "fixed.yaml", "--force", code=65)
    assert "--changed" in refused.stderr
    assert story(place) == ["A", "B", "F"]


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines())


@pytest.mark.rule("G51")
def test_a_failure_recorded_after_a_cancel_keeps_its_outcome_and_a_second_resume_runs_the_step_again(
    place: Place,
) -> None:
    script = (
        "echo A >> story; test -f ok && exit 0; touch begun; until test -f go; do sleep 0.02; done; exit 7"
    )
    place.write(f'steps: [{{name: A, command: [sh, -c, "{script}"]}}]')
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    driver.send_signal(
        signal.SIGSTOP
    )  # so that the cancel is in the log before the driver knows how the step ended
    place.run("cancel", place.run_id)
    (place.folder / "go").touch()
    until(lambda: not place.processes())
    driver.send_signal(signal.SIGCONT)
    assert ended(driver)[0] == 2
    failure = next(one for one in place.events() if one["eventType"] == "StepFailed")
    assert failure["payload"]["exitCode"] == 7
    shown = place.run("resume", place.run_id, code=1).stdout
    assert "step 'A' failed, and the run ended because of it" in shown
    assert f"podium resume {place.run_id}  runs it again" in shown
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    assert story(place) == ["A", "A"]
