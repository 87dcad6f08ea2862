"""The modules of the machine are layers: none imports one above it, looks into another, or asserts what types say."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import podium.machine

FOLDER = Path(podium.machine.__file__).parent
MODULES = {file.stem: ast.parse(file.read_text()) for file in FOLDER.glob("*.py")}
PACKAGE = "podium.machine"


def _imported(tree: ast.Module) -> set[str]:
    """The modules of the machine that a module imports, also for types only."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            found.add(str(node.module).rpartition(".")[2])
    return found & MODULES.keys()


def test_the_modules_do_not_import_each_other_in_a_cycle() -> None:
    graph = {name: _imported(tree) for name, tree in MODULES.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("agenda") < order.index("attempts") < order.index("layers") < order.index("machine")


def test_nothing_is_asserted_that_a_type_could_say() -> None:
    asserts = [
        f"{name}.py:{node.lineno}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    assert asserts == []


def test_no_module_uses_the_private_names_of_another() -> None:
    private = []
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                private += [f"{name}: {alias.name}" for alias in node.names if alias.name.startswith("_")]
            elif isinstance(node, ast.Attribute) and _is_private(node.attr):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                if owner not in ("self", "cls"):
                    private.append(f"{name}: {owner}.{node.attr}")
    assert private == []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_the_frame_can_be_read_in_one_sitting() -> None:
    assert len((FOLDER / "machine.py").read_text().splitlines()) <= 350
