"""The five example workflows of the specification run verbatim, with stand-ins for the programs they name.

`output_file` is an artifact of the run; a program finds it through PODIUM_ARTIFACTS, as the stand-in for load.py does.
What a program writes by itself, such as the log of the tests, is in the workspace, where `input_file` looks second.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

SPEC = Path(__file__).parents[1] / "unit" / "workflows" / "spec"
CLAUDE = """#!/usr/bin/env python3
import json, sys
prompt = sys.stdin.read()
result = {"type": "result", "subtype": "success", "is_error": False, "session_id": "x", "num_turns": 1}
result |= {"result": "ANSWER to: " + prompt, "usage": {"input_tokens": 1, "output_tokens": 1}, "total_cost_usd": 0.01}
print(json.dumps(result))
"""
# Fails as often as the file `failures` says, and writes the log that "Debug Tests" reads.
PYTHON = """#!/bin/sh
case "$*" in
  "-m pytest tests/")
    echo run >> pytest.calls
    [ $(wc -l < pytest.calls) -gt ${FAILURES:-0} ] && exit 0
    [ -n "$NO_LOG" ] || echo "1 failed" > test_output.log
    exit 1;;
  validate.py*) test -f "$2";;
  load.py*) grep -q ANSWER "$PODIUM_ARTIFACTS/$2" && echo "$2" >> loaded;;
esac
"""
NPM = """#!/bin/sh
case "$*" in
  "run lint") test -e fixed;;
  "run lint:fix") [ -z "$CANNOT_FIX" ] && : > fixed;;
  test) [ -z "$FAILING" ] || { echo "1 failed" > test_results.log; exit 1; };;
  "run build") mkdir -p dist && echo built > dist/app.js;;
esac
"""
DOCKER = """#!/bin/sh
case "$*" in build*) for name in $BROKEN; do case "$*" in *"./$name") exit 1;; esac; done;; esac
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    programs = {"claude": CLAUDE, "python": PYTHON, "npm": NPM, "docker": DOCKER}
    programs |= {"kubectl": "#!/bin/sh\n", "curl": "#!/bin/sh\nexit ${UNHEALTHY:-0}\n"}
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        executable(tmp_path / "bin" / name, text)
    executable(tmp_path / "deploy.sh", '#!/bin/sh\ntest -n "$GITHUB_TOKEN" && echo "$1" > deployed\n')
    for name in ("requirements.md", "schema.sql", "data1.csv", "data2.csv", "data3.csv"):
        (tmp_path / name).write_text(f"content of {name}\n")
    for name in ("prompts", "frontend", "backend"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "analyze_requirements.md").write_text("Analyze the requirements.\n")
    for file in SPEC.iterdir():
        shutil.copy(file, tmp_path)
    place.environment["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    place.environment["GITHUB_TOKEN"] = "tok-123456"
    for name in ("CI", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        place.environment.pop(name, None)
    return place


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def carry_out(place: Place, name: str, code: int = 0, **env: str) -> str:
    """The error that the run ended with."""
    place.run("run", f"{name}.yaml", "--run-id", place.run_id, "-q", code=code, env=env)
    return str(place.state().get("error") or "")


def artifact(place: Place, name: str) -> str:
    return place.file(f"artifacts/{name}").read_text()


@pytest.mark.rule("R095")
def test_feature_development_deploys_in_ci(place: Place) -> None:
    carry_out(place, "feature_development", CI="1")
    assert (place.folder / "deployed").read_text() == "my-app\n"
    assert "content of requirements.md" in artifact(place, "analysis.md")
    assert artifact(place, "analysis.md") in artifact(place, "implementation.py")


@pytest.mark.rule("R095")
def test_feature_development_debugs_failing_tests_and_deploys_then(place: Place) -> None:
    carry_out(place, "feature_development", CI="1", FAILURES="2")
    assert "1 failed" in artifact(place, "fixes.py")
    assert (place.folder / "deployed").exists()


def test_feature_development_fails_where_nothing_writes_the_log_it_reads(place: Place) -> None:
    said = place.run("validate", "feature_development.yaml").stderr
    assert "warning E218 no step writes 'test_output.log'" in said
    carry_out(place, "feature_development", 4, CI="1", FAILURES="9", NO_LOG="1")
    assert "test_output.log" in place.state()["steps"]["Debug Tests"]["error"]["message"]
    assert not (place.folder / "deployed").exists()


def test_feature_development_stops_before_it_starts_without_the_secret_of_a_step(place: Place) -> None:
    done = place.run("run", "feature_development.yaml", code=78, env={"GITHUB_TOKEN": ""})
    assert done.stderr.splitlines()[-1].startswith(
        "SECRET_NOT_FOUND: the secret 'GITHUB_TOKEN' of step 'Deploy'"
    )


@pytest.mark.rule("R096")
def test_parallel_analysis_combines_all_three(place: Place) -> None:
    carry_out(place, "parallel_analysis")
    report = artifact(place, "final_report.md")
    assert all(artifact(place, f"{part}_analysis.md") in report for part in ("frontend", "backend", "db"))


@pytest.mark.rule("R096")
def test_parallel_analysis_fails_if_one_of_its_inputs_is_missing(place: Place) -> None:
    (place.folder / "schema.sql").unlink()
    carry_out(place, "parallel_analysis", 1)
    assert not place.file("artifacts/final_report.md").exists()


@pytest.mark.rule("R097")
def test_service_deployment_continues_with_a_majority(place: Place) -> None:
    carry_out(place, "service_deployment", BROKEN="worker")
    summary = place.state()["steps"]["Deploy Services"]["summary"]
    assert (summary["success_count"], summary["skipped_count"]) == (3, 1)
    assert place.state()["steps"]["Finalize"]["output"] == "Deployment complete\n"


@pytest.mark.rule("R097")
def test_service_deployment_fails_without_a_majority(place: Place) -> None:
    error = carry_out(place, "service_deployment", 1, BROKEN="worker api")
    assert "Deployment failed for majority of services" in error


@pytest.mark.rule("R098")
def test_build_pipeline_mends_its_lint_errors_and_packages(place: Place) -> None:
    carry_out(place, "build_pipeline")
    assert (place.folder / "dist.tar.gz").exists()
    assert place.state()["steps"]["Lint Code"]["visits"] == 2


@pytest.mark.rule("R098")
def test_build_pipeline_analyzes_failing_tests_and_fails(place: Place) -> None:
    error = carry_out(place, "build_pipeline", 1, FAILING="1")
    assert "Tests failed - see analysis" in error
    assert "1 failed" in artifact(place, "test_analysis.md")


@pytest.mark.rule("R098")
def test_build_pipeline_fails_if_lint_errors_cannot_be_mended(place: Place) -> None:
    assert "Cannot auto-fix lint errors" in carry_out(place, "build_pipeline", 1, CANNOT_FIX="1")


@pytest.mark.rule("R099")
def test_data_processing_loads_what_it_transformed_and_reports(place: Place) -> None:
    carry_out(place, "data_processing_pipeline")
    assert (place.folder / "loaded").read_text().split() == [f"transformed_{n}.csv" for n in range(3)]
    assert "Total files processed: 3" in artifact(place, "report.md")


@pytest.mark.rule("R099")
def test_data_processing_fails_if_a_file_is_missing(place: Place) -> None:
    (place.folder / "data2.csv").unlink()
    carry_out(place, "data_processing_pipeline", 4)
    assert (place.folder / "loaded").read_text().split() == ["transformed_0.csv", "transformed_2.csv"]
