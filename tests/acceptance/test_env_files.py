"""Environment files: a run that was started with one needs it again, and the log says nothing about its values."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place, ended, until

TOKEN = "abc-secret-token"
FLOW = """
secrets: [TOKEN]
steps:
  - {name: First, command: [sh, -c, 'echo "$PLAIN"']}
  - {name: Use, secrets: [TOKEN], command: [sh, -c, 'test -n "$TOKEN" && echo "$PLAIN" && test -f go']}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (tmp_path / "prod.env").write_text(f"TOKEN={TOKEN}\nPLAIN=one\n")
    place.write(FLOW)
    return place


def failed_run(place: Place, *files: str) -> None:
    options = [word for file in files for word in ("--env-file", file)]
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", *options, code=1)
    (place.folder / "go").touch()


def outputs(place: Place, run_id: str | None = None) -> list[str]:
    return [step["output"] for step in place.state(run_id)["steps"].values()]


def queued(place: Place) -> dict[str, Any]:
    payload: dict[str, Any] = place.events()[0]["payload"]
    return payload


@pytest.mark.rule("D31")
@pytest.mark.rule("D29")
@pytest.mark.parametrize("command", [["resume"], ["resume", "--changed"], ["rerun", "--from", "Use"]])
def test_a_run_does_not_continue_without_its_environment_file(place: Place, command: list[str]) -> None:
    failed_run(place, "prod.env")
    before = len(place.events())
    refused = place.run(command[0], place.run_id, *command[1:], code=78).stderr
    assert refused.startswith("ENV_FILE_REQUIRED: ")
    assert "PLAIN, TOKEN" in refused
    assert f"--env-file {place.folder / 'prod.env'}" in refused
    assert TOKEN not in refused
    assert len(place.events()) == before
    done = place.run(command[0], place.run_id, *command[1:], "-q", "--env-file", "prod.env")
    assert "warning" not in done.stderr


def test_the_command_that_the_message_names_works(place: Place) -> None:
    failed_run(place, "prod.env")
    refused = place.run("resume", place.run_id, code=78).stderr
    words = refused.split("`")[1].split()
    assert words[0] == "podium"
    place.run(*words[1:])
    assert place.state()["status"] == "completed"


def test_a_file_that_lacks_a_variable_is_not_enough(place: Place) -> None:
    failed_run(place, "prod.env")
    (place.folder / "other.env").write_text(f"TOKEN={TOKEN}\n")
    refused = place.run("resume", place.run_id, "--env-file", "other.env", code=78).stderr
    assert "Missing: PLAIN." in refused


@pytest.mark.rule("D31")
def test_a_changed_file_is_used_with_a_warning(place: Place) -> None:
    failed_run(place, "prod.env")
    (place.folder / "prod.env").write_text(f"# changed\nTOKEN={TOKEN}\nPLAIN=two\n")
    done = place.run("resume", place.run_id, "-q", "--env-file", "prod.env")
    assert "warning: prod.env changed since the run was started" in done.stderr
    assert outputs(place) == ["one\n", "two\n"]


def test_without_the_key_it_says_that_it_cannot_compare(place: Place) -> None:
    failed_run(place, "prod.env")
    place.file(".env-key").unlink()
    done = place.run("resume", place.run_id, "-q", "--env-file", "prod.env")
    assert "cannot be checked" in done.stderr


@pytest.mark.rule("D31")
def test_later_files_win_and_all_are_needed_again(place: Place) -> None:
    (place.folder / "more.env").write_text("PLAIN=later\nMORE=x\n")
    failed_run(place, "prod.env", "more.env")
    assert outputs(place)[0] == "later\n"
    refused = place.run("resume", place.run_id, "--env-file", "prod.env", code=78).stderr
    assert "Missing: MORE." in refused
    turned = place.run("resume", place.run_id, "-q", "--env-file", "more.env", "--env-file", "prod.env")
    assert "order" in turned.stderr


@pytest.mark.rule("D31")
def test_the_log_has_names_and_a_keyed_digest_and_no_value(place: Place) -> None:
    failed_run(place, "prod.env")
    (kept,) = queued(place)["envFiles"]
    assert kept["path"] == str(place.folder / "prod.env")
    assert kept["names"] == ["PLAIN", "TOKEN"]
    assert place.file(".env-key").stat().st_mode & 0o777 == 0o600
    first = kept["digest"]
    for file in place.runs.rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes(), file
    # The same file in another run has another digest: nothing can be compared without the key.
    other = f"{place.run_id}-2"
    place.run("run", "w.yaml", "--run-id", other, "-q", "--env-file", "prod.env")
    assert place.events(other)[0]["payload"]["envFiles"][0]["digest"] != first
    assert first not in json.dumps(place.events(other))


def test_a_rerun_needs_the_file_again_when_it_is_resumed(place: Place) -> None:
    failed_run(place, "prod.env")
    (place.folder / "go").unlink()
    again = f"{place.run_id}-2"
    options = ["--from", "Use", "--run-id", again, "-q", "--env-file", "prod.env"]
    place.run("rerun", place.run_id, *options, code=1)
    assert "ENV_FILE_REQUIRED" in place.run("resume", again, code=78).stderr


@pytest.mark.parametrize("given", [(), ("--env-file", "prod.env")])
def test_a_cancel_that_runs_finally_says_which_variables_are_missing(
    place: Place, given: tuple[str, ...]
) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, 'touch begun; sleep 60']}
        finally:
          - {name: Clean, command: [sh, -c, 'echo "got $PLAIN" > cleaned']}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q", "--env-file", "prod.env")
    until((place.folder / "begun").exists)
    process.kill()
    ended(process)
    done = place.run("cancel", place.run_id, *given)
    assert ("Missing: PLAIN, TOKEN." in done.stderr) == (not given)
    assert (place.folder / "cleaned").read_text() == ("got one\n" if given else "got \n")


# --- `env_file` of a workflow ---------------------------------------------------------------------------------------

NAMED = """
env_file: {file}
env: {{LAST: step}}
steps:
  - {{name: First, command: [sh, -c, 'echo "$PLAIN $LAST"']}}
  - {{name: Use, shell: 'echo "$PLAIN"; test -f go'}}
"""


def test_the_workflow_may_name_its_files_and_they_are_read_again_to_resume(place: Place) -> None:
    place.write(NAMED.format(file="prod.env"))
    failed_run(place)
    assert outputs(place)[0] == "one step\n"
    (kept,) = queued(place)["envFiles"]
    assert (kept["path"], kept["declared"]) == (str(place.folder / "prod.env"), True)
    assert "prod.env" not in place.run("plan", "w.yaml", "--json").stdout
    (place.folder / "prod.env").write_text("PLAIN=two\nTOKEN=x\nLAST=file\n")
    done = place.run("resume", place.run_id, "-q")
    assert "changed since the run was started" in done.stderr
    assert outputs(place)[1] == "two\n"


def test_of_the_environment_the_workflows_files_the_given_files_and_env_the_last_wins(place: Place) -> None:
    (place.folder / "a.env").write_text("A=a\nB=a\nC=a\nD=a\n")
    (place.folder / "b.env").write_text("B=b\nC=b\nD=b\n")
    (place.folder / "given.env").write_text("C=given\nD=given\n")
    place.write(
        """
        env_file: [a.env, b.env]
        env: {D: workflow}
        steps: [{name: First, shell: 'echo "$A $B $C $D"'}]
        """
    )
    place.run(
        "run", "w.yaml", "--run-id", place.run_id, "-q", "--env-file", "given.env", env={"A": "process"}
    )
    assert outputs(place) == ["a b given workflow\n"]


def test_the_files_are_looked_for_in_the_folder_of_the_workflow(place: Place) -> None:
    (place.folder / "flows").mkdir()
    (place.folder / "flows" / "x.env").write_text("PLAIN=beside\n")
    place.write(NAMED.format(file="x.env"), "flows/w.yaml")
    place.run("run", "flows/w.yaml", "--run-id", place.run_id, "-q", code=1)
    assert outputs(place)[0] == "beside step\n"


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"]])
def test_a_missing_file_of_the_workflow_stops_it_before_anything_is_made(
    place: Place, command: list[str]
) -> None:
    place.write(NAMED.format(file="none.env"))
    place.run("validate", "w.yaml")
    refused = place.run(*command, "w.yaml", code=78).stderr
    assert refused.startswith("ENV_FILE_NOT_USABLE: 'none.env', which the workflow names as `env_file`")
    assert not place.runs.exists()


def test_a_missing_file_of_the_workflow_stops_a_resume(place: Place) -> None:
    place.write(NAMED.format(file="prod.env"))
    failed_run(place)
    before = len(place.events())
    (place.folder / "prod.env").unlink()
    assert "ENV_FILE_NOT_USABLE" in place.run("resume", place.run_id, code=78).stderr
    assert len(place.events()) == before


def test_a_rerun_reads_and_keeps_the_files_of_the_workflow(place: Place) -> None:
    place.write(NAMED.format(file="prod.env"))
    failed_run(place)
    other = f"{place.run_id}-2"
    place.run("rerun", place.run_id, "--run-id", other, "-q")
    assert outputs(place, other) == ["one step\n", "one\n"]
    assert place.events(other)[0]["payload"]["envFiles"][0]["declared"] is True


def test_other_engines_do_not_read_files_of_the_workflow_and_say_so(place: Place) -> None:
    place.write(NAMED.format(file="prod.env"))
    refused = place.run("run", "w.yaml", "--engine", "temporal", code=78).stderr
    assert refused.startswith("ENV_FILE_NOT_USABLE")
    assert "podium worker --env-file" in refused
