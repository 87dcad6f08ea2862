"""Writes the tables of docs/engines.md (`python -m tests.engines_page`); a test keeps the two equal."""

import re
from collections.abc import Iterator
from pathlib import Path

from podium.plan.engine_support import CAPABILITIES, ENGINES

PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
_PART = re.compile(r"(<!-- engines: begin -->\n).*(<!-- engines: end -->)", re.DOTALL)


def tables() -> str:
    return "\n".join([*_matrix(), "", *_limits(), ""])


def with_tables(text: str) -> str:
    return _PART.sub(lambda found: f"{found[1]}{tables()}{found[2]}", text)


def _matrix() -> Iterator[str]:
    yield f"| capability | what it is | {' | '.join(ENGINES)} |"
    yield f"| --- | --- |{' --- |' * len(ENGINES)}"
    for capability, meaning in CAPABILITIES.items():
        cells = [engine.cells[capability] for engine in ENGINES.values()]
        shown = " | ".join(f"{cell.support}: {cell.reason}" for cell in cells)
        yield f"| `{capability}` | {meaning} | {shown} |"


def _limits() -> Iterator[str]:
    yield "| engine | largest `max_parallel` |"
    yield "| --- | --- |"
    for engine in ENGINES.values():
        yield f"| {engine.name} | {'any' if engine.max_parallel is None else engine.max_parallel} |"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
