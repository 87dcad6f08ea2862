"""Every method of the store is called by the product, or is listed here with the part that it waits for."""

import ast
from pathlib import Path

import podium

SOURCE = Path(podium.__file__).parent
# Called by the stores themselves and by what is published for tests.
NOT_THE_PRODUCT = ("stores/", "testing/", "ports/store.py")
LATER = {"run_of_engine": "people and tools that know a run by the ids of its engine"}


def test_a_method_that_no_command_reaches_says_what_it_waits_for() -> None:
    assert _methods() - _called() == LATER.keys()


def _methods() -> set[str]:
    """The public methods of the protocols that a store is made of."""
    files = [SOURCE / "ports" / "store.py", *(SOURCE / "ports").glob("*_store.py")]
    classes = [node for file in files for node in _tree(file).body if isinstance(node, ast.ClassDef)]
    return {
        node.name
        for each in classes
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in each.bases)
        for node in each.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
    }


def _called() -> set[str]:
    """Names of all methods that the product calls, or passes on as `store.name`."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix().startswith(NOT_THE_PRODUCT):
            continue
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found.add(node.func.attr)
            # partial(store.claim, ...)
            found |= {
                argument.attr
                for argument in (node.args if isinstance(node, ast.Call) else [])
                if isinstance(argument, ast.Attribute) and ast.unparse(argument.value).endswith("store")
            }
    return found


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
