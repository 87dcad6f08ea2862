"""Secret inputs: a run is given where a value is, and the value is nowhere but in the steps that name it."""

import os
from pathlib import Path

import pytest

import podium
from podium.operations.inputs import InvalidInput, check_inputs
from podium.plan.plan import Plan
from tests.acceptance.podium import Place

VALUE = "hunter22-xyzzy"
FLOW = """
inputs:
  token: {secret: true}
steps:
  - name: Script
    shell: |
      test "${inputs.token}" = "$(cat value)" && echo "token ${inputs.token}"
      tr '\\0' ' ' < /proc/$$/cmdline
  - name: Variable
    command: [sh, -c, 'printf %s "$HEADER" | wc -c; echo "${#T}"; echo "$HEADER"; ! env | grep -q "^T=\\|^inputs"']
    env: {HEADER: "Bearer ${inputs.token}"}
  - name: Other
    command: [sh, -c, '! env | grep "$(cat value)"; test -f go']
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(FLOW.replace("${#T}", "$${#T}"))
    (tmp_path / "value").write_text(VALUE)
    return place


def everything_stored(place: Place) -> bytes:
    return b"".join(path.read_bytes() for path in place.runs.rglob("*") if path.is_file())


@pytest.mark.rule("D67")
def test_a_value_is_in_the_steps_that_name_it_and_nowhere_else(place: Place) -> None:
    done = place.run(
        "run", "w.yaml", "--run-id", place.run_id, "--input", "token=env:T", code=1, env={"T": VALUE}
    )
    steps = place.state()["steps"]
    assert steps["Script"]["output"].startswith("token ***")
    assert VALUE not in steps["Script"]["output"]  # also not among the arguments of the shell
    assert steps["Variable"]["output"].splitlines() == ["21", "0", "Bearer ***"]
    assert steps["Other"]["status"] == "failed"  # for `go` is missing, and it saw no value
    assert VALUE not in done.stdout + done.stderr
    for view in (["report"], ["report", "--format", "html"], ["events"], ["export"], ["logs"]):
        assert VALUE not in place.run(view[0], place.run_id, *view[1:]).stdout
    assert VALUE.encode() not in everything_stored(place)
    assert b"env:T" in everything_stored(place)


@pytest.mark.rule("D67")
def test_a_program_that_is_notified_has_no_variable_with_a_value(place: Place) -> None:
    place.write(
        """
        inputs:
          token: {secret: true}
        notify: [{on: [success], command: [sh, -c, "cat > notice; env > seen"]}]
        steps:
          - {name: Use, shell: 'test -n "${inputs.token}"'}
        """
    )
    given = {"T": VALUE, "SEEN": "yes"}
    place.run("run", "w.yaml", "--run-id", place.run_id, "--input", "token=env:T", env=given)
    seen = (place.folder / "seen").read_text().splitlines()
    assert "SEEN=yes" in seen
    assert not [line for line in seen if VALUE in line]


def test_a_resume_and_a_rerun_read_the_value_again(place: Place) -> None:
    secret = place.folder / "token.txt"
    secret.write_text("another-value\n")
    (place.folder / "value").write_text("another-value")
    place.run("run", "w.yaml", "--run-id", place.run_id, "--input", "token=file:token.txt", code=1)
    (place.folder / "go").touch()
    secret.unlink()
    (place.folder / "elsewhere").mkdir()
    refused = place.run("resume", place.run_id, code=78)
    assert (
        "SECRET_NOT_FOUND: the secret input 'token' of steps 'Script', 'Variable': its file" in refused.stderr
    )
    secret.write_text(VALUE)
    (place.folder / "value").write_text(VALUE)
    place.run("resume", place.run_id)
    second = f"{place.run_id}-2"
    place.run("rerun", place.run_id, "--from", "Script", "--run-id", second)
    place.run("resume", second, "--changed", "--workflow", "w.yaml", "--run-id", f"{second}-3")
    assert place.state(second)["steps"]["Script"]["output"].startswith("token ***")
    assert VALUE.encode() not in everything_stored(place)


@pytest.mark.parametrize("given", [VALUE, f"exec:echo {VALUE}", f"{VALUE}:x", "env:", "env:1A", "file: "])
def test_a_value_itself_is_refused_and_not_repeated(place: Place, given: str) -> None:
    refused = place.run("run", "w.yaml", "--input", f"token={given}", code=64)
    assert refused.stderr.startswith("INVALID_INPUT: the input 'token' is secret")
    assert VALUE not in refused.stderr
    (place.folder / "inputs.yaml").write_text(f"token: {VALUE}\n")
    refused = place.run("run", "w.yaml", "--input-file", "inputs.yaml", code=64)
    assert VALUE not in refused.stderr
    assert not place.runs.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "is not given; give it with --input token=env:NAME or --input token=file:PATH"),
        (["--input", "token=env:T"], "the variable T is not set"),
        (["--input", "token=file:nothing"], "does not exist"),
        (["--input", "token=env:SHORT"], "the secret input 'token' has fewer than 6 characters"),
    ],
)
def test_what_is_missing_is_found_before_the_first_step(
    place: Place, options: list[str], message: str
) -> None:
    assert message in place.run("run", "w.yaml", *options, code=78, env={"SHORT": "abc"}).stderr
    assert message in place.run("run", "w.yaml", *options, "--dry-run", code=78, env={"SHORT": "abc"}).stderr
    assert not place.runs.exists()


def test_an_open_file_gets_a_warning(place: Place) -> None:
    (place.folder / "value").chmod(0o644)
    done = place.run("run", "w.yaml", "--input", "token=file:value", code=1)
    assert "warning: the secret input 'token': its file" in done.stderr


def test_a_called_workflow_gets_it_by_its_name(place: Place) -> None:
    place.write(
        """
        inputs: {token: {secret: true}}
        steps: [{name: Use, shell: 'test "${inputs.token}" = "$(cat value)" && echo "got ${inputs.token}"'}]
        outputs: {said: "${steps.Use.output}"}
        """,
        "called.yaml",
    )
    place.write(
        """
        inputs: {token: {secret: true}}
        steps:
          - {name: Call, call: {workflow: called.yaml, inputs: {token: "${inputs.token}"}}}
          - {name: Say, command: [echo, "${steps.Call.outputs.said}"]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "--input", "token=env:T", env={"T": VALUE})
    assert place.state()["steps"]["Say"]["output"] == "got ***\n"
    assert VALUE.encode() not in everything_stored(place)


def test_a_pool_takes_a_variable_of_its_workers_and_no_file(place: Place) -> None:
    refused = place.run("run", "w.yaml", "--pool", "default", "--input", "token=file:value", code=64)
    assert "a file is only read by a run on this machine: give it with env:NAME" in refused.stderr
    place.write("inputs: {token: {secret: true}}\nsteps: [{name: A, shell: 'echo \"got ${inputs.token}\"'}]")
    asked = ["--pool", "default", "--run-id", place.run_id, "--input", "token=env:T", "--no-wait"]
    place.run("run", "w.yaml", *asked, code=5, env={"T": VALUE})
    (place.folder / "worker.env").write_text(f"T={VALUE}\n")
    worker = place.begin("worker", "--env-file", "worker.env")
    try:
        place.run("events", place.run_id, "--follow")
    finally:
        worker.terminate()
        worker.communicate()
    assert place.run("logs", place.run_id).stdout.splitlines()[-1] == "got ***"
    assert VALUE.encode() not in everything_stored(place)


def test_a_caller_of_a_server_names_no_secret_of_the_machine(place: Place) -> None:
    plan = podium.Workflow.load(place.folder / "w.yaml").plan
    assert isinstance(plan, Plan)
    for given in ("env:HOME", "file:/etc/passwd", VALUE):
        with pytest.raises(InvalidInput, match="is secret") as refused:
            check_inputs({"token": given}, plan.workflow)
        assert VALUE not in str(refused.value)


def test_a_program_gives_the_same_references(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T", VALUE)
    (place.folder / "go").touch()
    inputs = {"token": "env:T"}
    result = podium.run(place.folder / "w.yaml", inputs=inputs, runs=place.runs, workspace=place.folder)
    assert result.status == "completed"
    assert VALUE.encode() not in everything_stored(place)
    assert os.environ["T"] == VALUE
