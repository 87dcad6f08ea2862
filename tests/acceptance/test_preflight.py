"""What a run needs is checked before anything is created: all problems at once, exit code 78."""

import os
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TOKEN", "PIN", "MY_KEY", "CODEX_API_KEY")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    for name in KEYS:
        place.environment.pop(name, None)
    return place


def refused(place: Place, text: str, *options: str, **env: str) -> str:
    """What is said on standard error; nothing may be there afterwards."""
    place.write(text)
    done = place.run("run", "w.yaml", "--run-id", place.run_id, *options, code=78, env=env)
    assert not place.runs.exists()
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.rule("D29")
def test_a_provider_without_its_key_or_model_stops_the_run_before_anything_is_done(place: Place) -> None:
    said = refused(
        place,
        """
        steps:
          - {name: Expensive, command: [touch, done]}
          - {name: Ask, provider: openai, prompt: hi}
        """,
    )
    assert "PROVIDER_MISCONFIGURED: step 'Ask': openai needs `model`" in said
    assert "PROVIDER_MISCONFIGURED: step 'Ask': openai needs the variable OPENAI_API_KEY" in said
    assert not (place.folder / "done").exists()


@pytest.mark.rule("D29", "D33", "D35")
def test_everything_that_is_missing_is_reported_at_once(place: Place) -> None:
    said = refused(
        place,
        """
        secrets: [PIN, TOKEN]
        providers:
          mine: {argv: [no-such-agent], needs_env: [MY_KEY]}
        steps:
          - {name: First, command: ["true"], secrets: [TOKEN]}
          - {name: Second, command: ["true"], secrets: [PIN, TOKEN]}
          - {name: Never, when: {expr: 1 == 2}, provider: mine, prompt: hi}
        """,
        PIN="1234",
    )
    assert said.startswith("NOT_READY: 4 things that the run needs are missing; nothing was started.\n")
    assert "SECRET_NOT_FOUND: the secret 'TOKEN' of steps 'First', 'Second' is not set" in said
    assert "SECRET_TOO_SHORT: the secret 'PIN' has fewer than 6 characters" in said
    assert (
        "PROVIDER_NOT_INSTALLED: step 'Never': the provider 'mine' needs the program 'no-such-agent'" in said
    )
    assert "PROVIDER_MISCONFIGURED: step 'Never': mine needs the variable MY_KEY" in said
    assert "1234" not in said.replace("'PIN'", "")


@pytest.mark.rule("D35")
def test_a_secret_that_could_not_be_masked_is_refused(place: Place) -> None:
    text = "secrets: [PIN]\nsteps: [{name: A, secrets: [PIN], command: [sh, -c, 'echo pin is $PIN']}]"
    assert refused(place, text, PIN="12345").startswith("SECRET_TOO_SHORT: the secret 'PIN'")
    done = place.run("run", "w.yaml", "--stream", env={"PIN": "123456"})
    assert "pin is ***" in done.stdout


@pytest.mark.rule("D35")
def test_a_key_of_a_provider_that_could_not_be_masked_is_refused(place: Place) -> None:
    text = "steps: [{name: Ask, provider: openai, model: m, prompt: hi}]"
    said = refused(place, text, OPENAI_API_KEY="12345")
    assert said.startswith("SECRET_TOO_SHORT: step 'Ask': the secret 'OPENAI_API_KEY'")


def test_a_secret_that_no_step_asks_for_need_not_be_set(place: Place) -> None:
    place.write("secrets: [TOKEN]\nsteps: [{name: A, command: ['true']}]")
    place.run("run", "w.yaml")


@pytest.mark.rule("D29")
def test_an_http_step_without_the_extra_is_refused(place: Place) -> None:
    path = without_module(place, "httpx2")
    text = """
        steps:
          - name: Wait
            repeat_until:
              condition: {expr: "${steps.Ask.status_code} == 200"}
              check_interval: 1
              max_iterations: 5
              steps: [{name: Ask, http: {url: "http://127.0.0.1:1/"}}]
        """
    said = refused(place, text, PYTHONPATH=path)
    assert said.startswith("EXTRA_MISSING: step 'Wait/Ask': an optional package is missing")
    assert "pip install 'podium[http]'" in said


@pytest.mark.rule("D29")
def test_a_provider_that_needs_the_extra_is_refused_without_it(place: Place) -> None:
    path = without_module(place, "httpx2")
    text = "steps: [{name: Ask, provider: openai, model: m, prompt: hi}]"
    said = refused(place, text, PYTHONPATH=path, OPENAI_API_KEY="123456")
    assert said.startswith("EXTRA_MISSING: step 'Ask': for the provider 'openai'")


def without_module(place: Place, name: str) -> str:
    """A folder for PYTHONPATH: Python cannot find the module."""
    folder = place.folder / "hidden"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {name!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


@pytest.mark.rule("D29")
def test_what_a_called_workflow_needs_counts_with_its_own_declarations(place: Place) -> None:
    place.write(
        """
        secrets: [TOKEN]
        providers: {mine: {argv: [no-such-agent]}}
        steps: [{name: Ask, provider: mine, prompt: hi, secrets: [TOKEN]}]
        """,
        "inner.yaml",
    )
    said = refused(place, "steps: [{name: Outer, call: inner.yaml}]")
    assert "SECRET_NOT_FOUND: the secret 'TOKEN' of step 'Outer/Ask'" in said
    assert "PROVIDER_NOT_INSTALLED: step 'Outer/Ask': the provider 'mine'" in said


@pytest.mark.rule("D29")
def test_a_setting_known_only_when_the_step_runs_is_no_problem_before(place: Place) -> None:
    place.write(
        """
        inputs: {model: {default: m}, effort: {default: high}}
        steps:
          - {name: Ask, provider: openai, model: "${inputs.model}", prompt: hi}
          - {name: Think, provider: claude, effort: "${inputs.effort}", prompt: hi}
        """
    )
    (place.folder / "bin").mkdir()
    program = place.folder / "bin/claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    env = {"OPENAI_API_KEY": "123456", "PATH": f"{program.parent}:{os.environ['PATH']}"}
    assert place.run("run", "w.yaml", "--dry-run", env=env).stderr == ""


@pytest.mark.rule("D53")
def test_a_setting_that_a_strict_provider_does_not_have_is_refused_before_the_run(place: Place) -> None:
    text = "steps: [{name: A, provider: openai, model: m, prompt: x, max_cost: 1, strict_provider: true}]"
    said = refused(place, text, OPENAI_API_KEY="123456")
    assert said.startswith("PROVIDER_MISCONFIGURED: step 'A': openai has no setting 'max_cost', and `strict")


@pytest.mark.rule("D17")
def test_a_program_that_is_not_there_yet_is_a_warning_and_127_later(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Install, command: [sh, -c, "printf '#!/bin/sh\\necho ran' > tool; chmod +x tool"]}
          - {name: Use, command: [./tool], output_file: said}
          - {name: Gone, command: [no-such-program], on: {success: {end: true}, failure: {end: true}}}
        """
    )
    done = place.run("run", "w.yaml", "--run-id", place.run_id)
    assert "warning: step 'Use': the program './tool' cannot be started now: program not found" in done.stderr
    assert (
        "warning: step 'Gone': the program 'no-such-program' cannot be started now: it is not on"
        in done.stderr
    )
    steps = place.state(place.run_id)["steps"]
    assert (steps["Use"]["exit_code"], steps["Gone"]["exit_code"]) == (0, 127)


@pytest.mark.rule("D29")
def test_a_replay_needs_neither_keys_nor_programs(place: Place) -> None:
    place.write("providers: {mine: {argv: [cat]}}\nsteps: [{name: Ask, provider: mine, prompt: hi}]")
    place.run("run", "w.yaml", "--record", "kept")
    bare = {"PATH": "/nowhere"}
    place.run("run", "w.yaml", code=78, env=bare)
    assert "completed" in place.run("run", "w.yaml", "--replay", "kept", env=bare).stdout


@pytest.mark.rule("D29")
def test_a_dry_run_shows_what_is_missing(place: Place) -> None:
    place.write("secrets: [TOKEN]\nsteps: [{name: A, command: [no-such], secrets: [TOKEN]}]")
    done = place.run("run", "w.yaml", "--dry-run", code=78)
    assert "Dry run: nothing was run." in done.stdout
    assert "SECRET_NOT_FOUND: the secret 'TOKEN' of step 'A' is not set" in done.stderr
    assert "warning: step 'A': the program 'no-such'" in done.stderr
    place.run("validate", "w.yaml")


@pytest.mark.rule("D33")
def test_an_environment_file_counts(place: Place) -> None:
    place.write("secrets: [TOKEN]\nsteps: [{name: A, command: ['true'], secrets: [TOKEN]}]")
    (place.folder / "more.env").write_text("TOKEN=in-the-file\n")
    place.run("run", "w.yaml", "--dry-run", "--env-file", "more.env")
    place.run("run", "w.yaml", "--env-file", "more.env")


@pytest.mark.rule("D33")
def test_resume_and_rerun_check_before_they_drive(place: Place) -> None:
    place.write(
        "secrets: [TOKEN]\n"
        "steps: [{name: A, command: ['true']}, {name: B, command: [test, -e, now], secrets: [TOKEN]}]"
    )
    token = {"TOKEN": "long enough"}
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1, env=token)
    before = len(place.events(place.run_id))
    said = place.run("resume", place.run_id, code=78).stderr
    assert said.startswith("SECRET_NOT_FOUND: the secret 'TOKEN' of step 'B' is not set")
    assert len(place.events(place.run_id)) == before
    place.run("rerun", place.run_id, "--from", "B", "--run-id", f"{place.run_id}-2", code=78)
    assert not (place.runs / f"{place.run_id}-2").exists()
    (place.folder / "now").touch()
    place.run("resume", place.run_id, env=token)
