"""The examples and the templates of `podium init` are valid, can be drawn, and say how they are used."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from podium.drawing import FORMATS, drawn
from podium.language.workflow import WorkflowReading
from podium.operations.starters import STARTERS, starter
from podium.operations.workflows import load_workflow
from podium.plan.loading import walk
from podium.plan.plan import Agent, Command, Plan

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
OF_THE_SPECIFICATION = sorted((Path(__file__).parent / "spec").glob("*.yaml"))
LANGUAGE_SERVER = "# yaml-language-server: $schema=workflow.schema.json\n"


def read(path: Path) -> WorkflowReading:
    return load_workflow(path.read_bytes(), str(path), workspace=ROOT, missing_is_error=True)


def plan_of(path: Path) -> Plan:
    plan = read(path).plan
    assert plan is not None
    return plan


def test_the_five_of_the_specification_and_five_of_our_own_are_there() -> None:
    names = {path.name for path in EXAMPLES}
    assert len(names) >= 10
    assert {path.name for path in OF_THE_SPECIFICATION} <= names


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_valid_without_a_warning(path: Path) -> None:
    reading = read(path)
    assert [str(found) for found in reading.diagnostics] == []
    assert reading.plan is not None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("format_", FORMATS)
def test_an_example_can_be_drawn(path: Path, format_: str) -> None:
    written = drawn(plan_of(path), format_)
    assert all(step.step_id.split()[0] in written for _, step in walk(plan_of(path).workflow))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_how_it_is_run(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(LANGUAGE_SERVER)
    assert "\n# Shows: " in text
    assert f"podium graph examples/{path.name}" in text
    assert f"podium run examples/{path.name}" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_needs_nothing_that_is_not_everywhere(path: Path) -> None:
    everywhere = {"echo", "python3", "sh", "grep", "tar", "sort", "wc", "find"}
    for _, step in walk(plan_of(path).workflow):
        # What another machine or an image has is not ours to look for.
        if isinstance(step.body, Command) and step.body.ssh is None and step.body.container is None:
            program = step.body.argv[0]
            assert isinstance(program, str)
            assert program in everywhere or os.access(ROOT / program, os.X_OK), program
            for argument in step.body.argv[1:]:
                if isinstance(argument, str) and argument.startswith("examples/"):
                    assert (ROOT / argument).exists(), argument
        if isinstance(step.body, Agent):
            # Whoever has no agent gets its answers from a recording.
            assert step.body.provider == "echo" or (ROOT / "examples/recordings" / path.stem).is_dir()


@pytest.mark.parametrize("path", OF_THE_SPECIFICATION, ids=lambda path: path.stem)
def test_an_example_of_the_specification_keeps_its_steps_and_ways(path: Path) -> None:
    """Only the commands are played by others: names, nesting, order, conditions and targets are as printed."""
    ours = plan_of(ROOT / "examples" / path.name)
    printed = load_workflow(path.read_bytes(), str(path), workspace=ROOT).plan
    assert printed is not None
    assert ours.metadata.name == printed.metadata.name
    assert ours.workflow.block.discipline == printed.workflow.block.discipline
    pairs = zip(walk(ours.workflow), walk(printed.workflow), strict=True)
    for (our_path, our_step), (their_path, their_step) in pairs:
        assert our_path == their_path
        assert type(our_step.body) is type(their_step.body)
        assert (our_step.on, our_step.when, our_step.retry) == (
            their_step.on,
            their_step.when,
            their_step.retry,
        )
        assert getattr(our_step.body, "join", None) == getattr(their_step.body, "join", None)
        assert getattr(our_step.body, "condition", None) == getattr(their_step.body, "condition", None)


def test_the_scripts_of_the_examples_are_well_formed() -> None:
    scripts = [path for path in (ROOT / "examples" / "stand-ins").iterdir() if path.is_file()]
    assert scripts
    for path in scripts:
        if path.suffix == ".py":
            ast.parse(path.read_text())
        else:
            subprocess.run(["sh", "-n", str(path)], check=True)


@pytest.mark.parametrize("name", STARTERS)
def test_a_template_is_valid_without_a_warning(name: str) -> None:
    reading = load_workflow(starter(name), f"{name}.yaml", workspace=Path("nowhere"), strict=True)
    assert [str(found) for found in reading.diagnostics] == []
    assert reading.plan is not None


@pytest.mark.parametrize("name", STARTERS)
def test_a_template_explains_itself(name: str) -> None:
    text = starter(name).decode()
    assert text.startswith(LANGUAGE_SERVER)
    assert text.count("#") >= 4


def test_every_template_is_listed() -> None:
    folder = ROOT / "src" / "podium" / "templates"
    assert sorted(path.stem for path in folder.glob("*.yaml")) == sorted(STARTERS)
