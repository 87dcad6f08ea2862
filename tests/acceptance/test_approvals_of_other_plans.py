"""An approval was given for a plan: a rerun of a run whose workflow was changed since asks again, and says so."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

WORKFLOW = """
    steps:
      - {{name: Build, command: [sh, -c, "echo Build >> story"]}}
      - {{name: Ready, approval: {{message: "Go?"}}}}
      - {{name: Ship, command: [sh, -c, "echo Ship >> story; {ship}"]}}
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_approval_of_another_plan_is_asked_again_in_a_rerun_and_what_precedes_it_is_taken_over(
    place: Place,
) -> None:
    place.write(WORKFLOW.format(ship="exit 1"))
    first = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: (place.runs / place.run_id / "state.json").exists())
    until(lambda: any(event.get("stepId") == "Ready" for event in place.events()))
    place.run("approve", place.run_id, "Ready")
    assert ended(first)[0] == 1
    place.write(WORKFLOW.format(ship="test -f ok"), "other.yaml")
    place.run("resume", place.run_id, "--workflow", "other.yaml", code=1)
    (place.folder / "ok").touch()
    again = f"{place.run_id}-again"
    rerun = place.begin("rerun", place.run_id, "--from", "Ship", "--run-id", again)
    until(lambda: (place.runs / again / "state.json").exists())
    until(
        lambda: any(
            event.get("stepId") == "Ready" and event["eventType"] == "StepStarted"
            for event in place.events(again)
        )
    )
    place.run("approve", again, "Ready")
    code, out, err = ended(rerun)
    assert code == 0, err
    assert "Ready: asked again: its approval was given for another plan" in out
    assert "Build: taken over from run" in out
    assert (place.folder / "story").read_text().split() == ["Build", "Ship", "Ship", "Ship"]
