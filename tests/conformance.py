"""Keeps docs/conformance/ and the tests telling the same story.

A row of a conformance table is shown by the tests that carry its id: `@pytest.mark.rule("NR06")`. Run as a
program (`make conformance`) this writes the tests and the planted violations of each row into the tables;
`tests/unit/test_conformance.py` fails when they differ.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.planted.violations import VIOLATIONS

TESTS = Path(__file__).parent
TABLES = TESTS.parent / "docs" / "conformance"
_ROW = re.compile(
    r"^\| (?P<id>[A-Z]+[0-9.]+) \| (?P<rule>[^|]*) \| (?P<tests>[^|]*) \| (?P<planted>[^|]*) \|$"
)


def marked_tests() -> dict[str, list[str]]:
    """For each rule the tests that are marked with it, as `file::test`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for rule in _marked(node):
                    found[rule].append(
                        f"{path.stem.removeprefix('test_')}::{node.name.removeprefix('test_')}"
                    )
    return found


def rows() -> dict[str, Path]:
    """Every row id with the table it stands in."""
    return {
        row["id"]: path
        for path in sorted(TABLES.glob("*.md"))
        for line in path.read_text().splitlines()
        if (row := _ROW.match(line))
    }


def written(text: str) -> str:
    """A conformance page with its last two columns filled in."""
    tests, planted = marked_tests(), planted_by_rule()

    def fill(line: str) -> str:
        row = _ROW.match(line)
        if row is None:
            return line
        shown = ", ".join(f"`{name}`" for name in sorted(set(tests.get(row["id"], []))))
        return f"| {row['id']} | {row['rule']} | {shown} | {'; '.join(planted.get(row['id'], []))} |"

    return "\n".join(fill(line) for line in text.split("\n"))


def planted_by_rule() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for violation in VIOLATIONS:
        found[violation.rule].append(violation.what)
    return found


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
            yield from (str(ast.literal_eval(argument)) for argument in decorator.args)


if __name__ == "__main__":
    for page in TABLES.glob("*.md"):
        page.write_text(written(page.read_text()))
