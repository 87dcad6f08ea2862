"""`resume` checks what a run needs before it changes anything about the run: a signal, a budget, a workflow."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

TOKEN = {"TOKEN": "long enough"}
FLOW = """
secrets: [TOKEN]
steps:
  - {name: A, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}
  - {name: B, command: [sh, -c, 'test -n "$TOKEN" && touch done'], secrets: [TOKEN]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment.pop("TOKEN", None)
    return place


def paused_and_left(place: Place, *options: str, **env: str) -> None:
    """A paused run that no process drives."""
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q", "--no-wait", *options, env=env)
    until((place.folder / "begun").exists)
    place.run("pause", place.run_id)
    until(lambda: place.state()["status"] == "paused")
    (place.folder / "go").touch()
    assert ended(process)[0] == 5


@pytest.mark.rule("D29", "D31")
def test_a_paused_run_stays_paused_if_something_that_it_needs_is_missing(place: Place) -> None:
    place.write(FLOW)
    paused_and_left(place, **TOKEN)
    before = place.events()
    said = place.run("resume", place.run_id, code=78).stderr
    assert said.startswith("SECRET_NOT_FOUND: the secret 'TOKEN' of step 'B' is not set")
    assert place.events() == before
    assert " PAUSED " in place.run("runs", "show", place.run_id).stdout
    place.run("resume", place.run_id, "-q", env=TOKEN)
    assert (place.folder / "done").exists()


@pytest.mark.rule("D29", "D31")
def test_a_paused_run_stays_paused_without_its_environment_file(place: Place) -> None:
    place.write(FLOW)
    (place.folder / "prod.env").write_text("TOKEN=long enough\n")
    paused_and_left(place, "--env-file", "prod.env")
    before = place.events()
    assert place.run("resume", place.run_id, code=78).stderr.startswith("ENV_FILE_REQUIRED: ")
    assert place.events() == before
    place.run("resume", place.run_id, "-q", "--env-file", "prod.env")


@pytest.mark.rule("D29")
def test_a_workflow_that_cannot_run_here_does_not_replace_the_one_of_a_paused_run(place: Place) -> None:
    place.write(FLOW)
    paused_and_left(place, **TOKEN)
    before, workflow = place.events(), place.file("workflow.yaml").read_text()
    place.write(FLOW.replace("[TOKEN]", "[TOKEN, OTHER]"), "other.yaml")
    said = place.run("resume", place.run_id, "--workflow", "other.yaml", code=78, env=TOKEN).stderr
    assert said.startswith("SECRET_NOT_FOUND: the secret 'OTHER' of step 'B' is not set")
    assert place.events() == before
    assert place.file("workflow.yaml").read_text() == workflow


@pytest.mark.rule("D31")
def test_a_paused_run_that_another_process_drives_needs_nothing_of_who_resumes_it(place: Place) -> None:
    place.write(FLOW)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q", env=TOKEN)
    until((place.folder / "begun").exists)
    place.run("pause", place.run_id)
    until(lambda: place.state()["status"] == "paused")
    (place.folder / "go").touch()
    place.run("resume", place.run_id, "-q")
    assert ended(process)[0] == 0
    assert (place.folder / "done").exists()


@pytest.mark.rule("D17")
def test_resume_warns_of_programs_that_are_not_there_as_run_does(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [test, -e, now]}
          - {name: B, command: [no-such-program], on: {failure: {end: true}}}
        """
    )
    warning = "warning: step 'B': the program 'no-such-program' cannot be started now: it is not on PATH\n"
    assert warning in place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1).stderr
    (place.folder / "now").touch()
    assert place.run("resume", place.run_id, "-q").stderr.count(warning) == 1


_NEWER = "import podium.plan.loading as one; one.SCHEMA_VERSION = 'v1.3'; from podium.cli import main; main()"


@pytest.mark.rule("G30")
def test_a_run_whose_plan_is_of_a_newer_version_is_not_resumed(place: Place) -> None:
    place.write("steps:\n  - {name: A, command: [test, -e, there]}\n")
    newer = [sys.executable, "-c", _NEWER, "run", "w.yaml", "--run-id", place.run_id, "-q"]
    begun = subprocess.run(newer, cwd=place.folder, env=place.environment, capture_output=True, check=False)
    assert begun.returncode == 1, begun.stderr
    refused = place.run("resume", place.run_id, code=65)
    assert "PLAN_SCHEMA_VERSION_UNKNOWN" in refused.stderr
    assert "'v1.3'; this Podium supports v1.0 to v1.2" in refused.stderr
