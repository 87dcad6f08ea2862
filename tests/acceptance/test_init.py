"""`podium init`: questions on a terminal, and files of other tools."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import PODIUM, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def answered(place: Place, *answers: str) -> str:
    """What a terminal shows of `podium init` when these answers are typed."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*PODIUM, "init"], cwd=place.folder, env=place.environment, stdin=end, stdout=end, stderr=end
    )
    os.close(end)
    os.write(terminal, "".join(f"{answer}\n" for answer in answers).encode())
    shown = b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # Linux reports the end of a terminal in this way
        pass
    assert process.wait(timeout=60) == 0, shown
    os.close(terminal)
    return shown.decode()


def test_on_a_terminal_three_questions_lead_to_a_valid_file(place: Place) -> None:
    shown = answered(place, "2", 'Nightly: "load"', "nightly.yaml")
    assert shown.count("?") == 3
    assert 'name: "Nightly: \\"load\\""' in (place.folder / "nightly.yaml").read_text()
    place.run("validate", "nightly.yaml")


def test_an_empty_answer_takes_what_is_proposed(place: Place) -> None:
    answered(place, "", "", "")
    place.run("validate", "workflow.yaml")


def test_a_name_that_no_workflow_can_have_is_asked_for_again(place: Place) -> None:
    shown = answered(place, "", "夜", "night", "")
    assert (
        "'name' cannot be '夜'. Write what the workflow is called, with a letter of a to z or a digit"
        in shown
    )
    assert "podium run workflow.yaml" in shown
    place.run("validate", "workflow.yaml")
    assert 'name: "night"' in (place.folder / "workflow.yaml").read_text()


def test_without_a_terminal_nothing_is_asked(place: Place) -> None:
    place.run("init", stdin=subprocess.DEVNULL)
    place.run("validate", "workflow.yaml")


def test_a_makefile_becomes_a_workflow_that_runs_and_the_rest_is_listed(place: Place) -> None:
    (place.folder / "Makefile").write_text("all: one\n\techo all\none:\n\techo one\nclean:\n\trm -f x\n")
    shown = place.run("init", "--from", "Makefile", "Makefile", "--output", "made.yaml").stdout
    assert "not translated: targets that 'all' does not need: clean" in shown
    place.run("validate", "--strict", "made.yaml")
    place.run("run", "made.yaml", "--run-id", place.run_id, "-q")
    assert place.state()["steps"]["all"]["output"] == "all\n"


def test_what_cannot_be_translated_at_all_leaves_no_file(place: Place) -> None:
    (place.folder / "ci.yml").write_text("jobs: {a: {steps: [{uses: x}]}}\n")
    refused = place.run("init", "--from", "github-workflow", "ci.yml", code=65)
    assert refused.stderr.startswith("NOT_TRANSLATABLE")
    assert not (place.folder / "workflow.yaml").exists()
    place.run("init", "--from", "gitlab", "ci.yml", code=64)
    place.run("init", "--from", "github-workflow", code=64)
