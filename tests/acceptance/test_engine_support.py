"""Which engine can run a workflow, before anything of it is created."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

STEPS = 'steps: [{name: A, command: "true"}]\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_validate_says_what_an_engine_lacks_and_what_to_write_instead(place: Place) -> None:
    place.write(f"max_parallel: 1001\n{STEPS}")
    assert "can run it" not in place.run("validate", "w.yaml").stdout
    assert "the engine local can run it" in place.run("validate", "w.yaml", "--engine", "local").stdout
    said = place.run("validate", "w.yaml", "--engine", "temporal", code=78).stderr
    assert said.startswith("CAPABILITY_NOT_SUPPORTED w.yaml: ")
    assert "`max_parallel: 1000` or less" in said


def test_validate_shows_the_report_as_json(place: Place) -> None:
    place.write(f"max_parallel: 1001\nfallback_behavior: degrade\n{STEPS}")
    (shown,) = json.loads(place.run("validate", "w.yaml", "--engine", "temporal", "--json").stdout)
    report = shown["validationReport"]
    assert (report["adapter"], report["status"], report["errors"]) == ("temporal", "WARNINGS", [])
    assert report["warnings"][0]["capability"] == "flow.parallel"
    place.run("validate", "w.yaml", "--engine", "temporal", "--format", "sarif", code=64)


def test_a_workflow_for_another_engine_is_refused_and_no_run_is_created(place: Place) -> None:
    place.write(f"engine: temporal\n{STEPS}")
    said = place.run("run", "w.yaml", "--run-id", "r1", code=78).stderr
    assert said.startswith("CAPABILITY_NOT_SUPPORTED")
    assert "is for the engine 'temporal', and this is 'local'" in said
    assert json.loads(place.run("runs", "list", "--json").stdout)["runs"] == []
    assert not (place.runs / "r1").exists()


@pytest.mark.rule("CN13")
def test_a_workflow_that_conductor_may_not_run_is_refused_with_the_report_before_a_server_is_asked(
    place: Place,
) -> None:
    place.write(f"engine: temporal\n{STEPS}")
    said = place.run("validate", "w.yaml", "--engine", "conductor", code=78).stderr
    assert said.startswith("CAPABILITY_NOT_SUPPORTED w.yaml: ")
    shown = place.run("validate", "w.yaml", "--engine", "conductor", "--json", code=78).stdout
    report = json.loads(shown)[0]["validationReport"]
    assert (report["adapter"], report["status"]) == ("conductor", "ERRORS")
    elsewhere = ("--engine", "conductor", "--url", "http://127.0.0.1:1")  # nothing listens there
    said = place.run("run", "w.yaml", "--run-id", "r1", *elsewhere, code=78).stderr
    assert "is for the engine 'temporal', and this is 'conductor'" in said
    assert json.loads(place.run("runs", "list", "--json").stdout)["runs"] == []


@pytest.mark.rule("CN13")
def test_a_workflow_can_name_conductor_and_every_other_engine_refuses_it(place: Place) -> None:
    place.write(f"engine: conductor\nmax_parallel: 5000\n{STEPS}")
    assert (
        "the engine conductor can run it" in place.run("validate", "w.yaml", "--engine", "conductor").stdout
    )
    said = place.run("run", "w.yaml", "--run-id", "r1", code=78).stderr
    assert "is for the engine 'conductor', and this is 'local'" in said


@pytest.mark.parametrize("flag", ["--record", "--replay"])
def test_recordings_are_not_possible_on_temporal(place: Place, flag: str) -> None:
    place.write(STEPS)
    said = place.run("run", "w.yaml", "--engine", "temporal", flag, ".", code=64).stderr
    assert "--record and --replay are for --engine local" in said


def test_a_function_of_a_program_is_not_possible_on_temporal(place: Place) -> None:
    place.write("steps: [{name: A, python: greet}]\n")
    said = place.run("run", "w.yaml", "--engine", "temporal", "--run-id", "r1", code=78).stderr
    assert said.startswith("FUNCTION_NOT_REGISTERED")
    assert not (place.runs / "r1").exists()
