"""The rules about the code itself are enforced: a planted breach is noticed."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy_of_project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("package", ["log", "expressions", "plan", "language", "machine", "drawing"])
@pytest.mark.parametrize(
    "breach",
    [
        "from datetime import datetime\n\nnow = datetime.now()\n",
        "import datetime\n\nnow = datetime.datetime.now(datetime.UTC)\n",
        "from uuid import uuid4\n\nprint(uuid4())\n",
        "import random\n\nprint(random.random())\n",
        "import time\n\nprint(time.time())\n",
        "from time import monotonic\n\nprint(monotonic())\n",
    ],
)
def test_pure_packages_may_not_ask_the_world(copy_of_project: Path, package: str, breach: str) -> None:
    pure = copy_of_project / "src" / "podium" / package / "breach.py"
    impure = copy_of_project / "src" / "podium" / "cli" / "breach.py"
    pure.parent.mkdir(exist_ok=True)
    for path in (pure, impure):
        path.write_text(breach)
    assert "TID251" in _ruff(copy_of_project, pure)
    assert "TID251" not in _ruff(copy_of_project, impure)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("machine/breach.py", "import podium.language.reader"),
        ("log/breach.py", "import podium.plan.plan"),
        ("expressions/breach.py", "import podium.plan.plan"),
        ("drawing/breach.py", "import podium.language.reader"),
        ("stores/breach.py", "import podium.log.fold"),
        ("providers/breach.py", "import podium.machine"),
        ("language/breach.py", "import podium.nodes"),
        ("nodes/breach.py", "import podium.cli"),
        ("client/breach.py", "import podium.operations.runs"),
        ("client/breach.py", "import podium.stores"),
        ("language/breach.py", "import os"),
        ("machine/breach.py", "import asyncio"),
        ("unplaced/__init__.py", "x = 1"),
    ],
)
def test_dependencies_point_down_and_every_folder_has_its_place(
    copy_of_project: Path, file: str, line: str
) -> None:
    path = copy_of_project / "src" / "podium" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(line + "\n")
    assert _lint_imports(copy_of_project) != 0


def test_the_project_itself_keeps_the_contracts(copy_of_project: Path) -> None:
    assert _lint_imports(copy_of_project) == 0


def _ruff(root: Path, path: Path) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", str(path)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout


def _lint_imports(root: Path) -> int:
    program = Path(sys.executable).with_name("lint-imports")
    command = [sys.executable, str(program), "--no-cache"]
    environment = {"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, check=False).returncode


# The specification gives these names to functions that others call.
_NAMED_BY_THE_SPECIFICATION = {"_create_action_for_step", "_build_workflow_context"}
# Of named tuples and `os`; and of Rich, which offers no other way to say that drawn lines have wrapped.
_NAMED_BY_LIBRARIES = {"_replace", "_asdict", "_exit", "_live_render", "_shape"}


def test_no_module_uses_a_private_name_of_another() -> None:
    files = sorted((ROOT / "src" / "podium").rglob("*.py"))
    found = {path.name: names for path in files if (names := _private_names_of_others(path.read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from podium.log.fold import _COUNTERS, EMPTY", {"_COUNTERS"}),
        ("driver._inbox.wait()", {"_inbox"}),
        ("class A:\n    def __init__(self) -> None:\n        self._x = other._y\n", {"_y"}),
        ("class A:\n    def __eq__(self, other: A) -> bool:\n        return self._x == other._x\n", set()),
    ],
)
def test_a_private_name_of_another_module_is_found(source: str, found: set[str]) -> None:
    assert _private_names_of_others(source) == found


def _private_names_of_others(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported: set[str] = set()
    read: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("podium"):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            (own if owner in ("self", "cls") else set() if owner == "KafkaError" else read).add(node.attr)
    names = (imported - _NAMED_BY_THE_SPECIFICATION) | (read - own - _NAMED_BY_LIBRARIES)
    return {name for name in names if re.match("_[a-zA-Z]", name)}
