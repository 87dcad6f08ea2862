"""Node contracts on the command line: validated, planned, drawn and run like workflows."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "nodes"


def install(package: Path, site: Path) -> None:
    """What `pip install` does with a package of Python files: copy it, and write down its entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    for folder in (path.parent for path in package.glob("*/__init__.py")):
        if folder.name != "tests":
            shutil.copytree(folder, site / folder.name)
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["podium.nodes"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[podium.nodes]", *lines, ""]))


def add_to_path(place: Place, folder: Path) -> None:
    place.environment["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def remove_nodes(place: Place) -> None:
    place.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place where the nodes of the example are installed."""
    place = Place(tmp_path)
    install(EXAMPLE, tmp_path / "site")
    add_to_path(place, tmp_path / "site")
    shutil.copy(EXAMPLE / "contract.yaml", tmp_path / "contract.yaml")
    return place


@pytest.mark.rule("RO02")
def test_a_contract_runs_like_a_workflow(place: Place) -> None:
    event = '{"item": "tea", "count": 3}'
    place.run("run", "contract.yaml", "--run-id", place.run_id, "--input", f"event={event}")
    steps = place.state()["steps"]
    assert json.loads(steps["write_offer"]["output"]) == {"text": "7.50 EUR, in stock"}
    ends = [one["payload"] for one in place.events() if one["eventType"] == "StepCompleted"]
    assert {end["epoch"] for end in ends} == {1}
    assert {end["correlationId"] for end in ends} == {place.run_id}
    assert "completed" in place.run("why", place.run_id).stdout


def test_a_contract_is_validated_planned_and_drawn(place: Place) -> None:
    assert "valid, 4 steps" in place.run("validate", "--strict", "contract.yaml").stdout
    assert "write_offer" in place.run("plan", "contract.yaml").stdout
    plan = json.loads(place.run("plan", "contract.yaml", "--json").stdout)
    body = plan["workflow"]["block"]["steps"][2]["body"]
    assert (body["kind"], body["node"], body["operation"]) == ("node", "reserve_stock", "reserve")
    assert "reducer write_offer: reduce" in place.run("graph", "contract.yaml").stdout
    assert "quote_price" in place.run("graph", "contract.yaml", "--format", "mermaid").stdout
    for engine in ("local", "temporal", "conductor"):
        place.run("validate", "contract.yaml", "--engine", engine)
    place.run("contract", "validate", "--strict", "contract.yaml")


@pytest.mark.rule("RO07")
def test_a_contract_whose_nodes_are_not_installed_is_refused_with_positions(place: Place) -> None:
    remove_nodes(place)
    for command in ("run", "validate", "plan", "graph"):
        shown = place.run(command, "contract.yaml", code=65)
        assert shown.stderr.count("E220") == 3
        assert (
            "contract.yaml:22:11: E220 no compute node named 'quote_price' is installed here." in shown.stderr
        )
    assert not place.runs.exists()


def test_a_run_is_resumed_only_where_its_nodes_are(place: Place) -> None:
    place.run("plan", "contract.yaml", "--json")
    ran = place.run(
        "run", "contract.yaml", "--run-id", place.run_id, "--input", 'event={"count": "x"}', code=1
    )
    assert "NODE_INPUT_INVALID" in ran.stdout + ran.stderr
    remove_nodes(place)
    refused = place.run("resume", place.run_id, code=78)
    assert "NODE_NOT_AVAILABLE" in refused.stderr


def test_the_test_of_the_example_passes() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(EXAMPLE),
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(EXAMPLE), str(EXAMPLE / "tests")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLE), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("node_type", ["effect", "compute", "reducer"])
def test_a_generated_node_passes_its_test_and_runs(node_type: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    shown = place.run("init", "node", "say_twice", "--type", node_type).stdout
    assert "podium run say_twice/contract.yaml" in shown
    add_to_path(place, tmp_path / "say_twice")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [*command, "--rootdir", "say_twice", "say_twice/tests"],
        cwd=tmp_path,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    install(tmp_path / "say_twice", tmp_path / "site")
    add_to_path(place, tmp_path / "site")
    place.run("validate", "--strict", "say_twice/contract.yaml")
    place.run("run", "say_twice/contract.yaml", "--run-id", place.run_id)
    assert json.loads(place.state()["steps"]["say_twice"]["output"]) == {"text": "hellohello"}


def test_nothing_is_overwritten_by_a_generated_node(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.run("init", "node", "greet")
    assert "is already there" in place.run("init", "node", "greet", code=64).stderr
    place.run("init", "node", "greet", "--force")
    place.run("init", "node", "greet", "--output", "elsewhere/greet")
    assert (tmp_path / "elsewhere" / "greet" / "contract.yaml").exists()
    for name in ("Greet", "json", "class", "a-b", "../x", "merge_outputs", "read_projection"):
        assert "INVALID_NODE_NAME" in place.run("init", "node", name, code=64).stderr
    assert "for `podium init node NAME`" in place.run("init", "basic", "greet", code=64).stderr
    assert "Missing argument 'NAME'" in place.run("init", "node", code=64).stderr


DYING = """
import os, signal
from pathlib import Path
from pydantic import BaseModel
from podium.nodes import NodeContext, NodeEffect, operation

class Nothing(BaseModel):
    pass

class Die(NodeEffect):
    name = "die"

    @operation
    async def act(self, data: Nothing, context: NodeContext) -> Nothing:
        marks = Path("marks")
        marks.write_text((marks.read_text() if marks.exists() else "") + f"{context.action.epoch} ")
        if len(marks.read_text().split()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return data
"""
DIES = """
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata: {version: 1.0.0, workflow_name: dies, workflow_version: 1.0.0, description: ""}
    execution_graph: {version: 1.0.0, nodes: [{node_id: die, node_type: effect}]}
"""


@pytest.mark.rule("RO05")
def test_an_effect_whose_process_was_killed_is_carried_out_again_with_the_same_epoch(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "dying").mkdir(parents=True)
    (package / "dying" / "__init__.py").write_text(DYING)
    (package / "pyproject.toml").write_text(
        '[project]\nname = "dying"\nversion = "1"\n[project.entry-points."podium.nodes"]\ndie = "dying:Die"\n'
    )
    install(package, tmp_path / "site")
    place = Place(tmp_path)
    add_to_path(place, tmp_path / "site")
    (tmp_path / "dies.yaml").write_text(DIES)
    place.run("run", "dies.yaml", "--run-id", place.run_id, code=-9)
    place.run("resume", place.run_id)
    assert (tmp_path / "marks").read_text().split() == ["0", "0"]
    (end,) = [one for one in place.events() if one["eventType"] == "StepCompleted"]
    assert (end["payload"]["epoch"], end["engineAttemptId"]) == (1, 2)
