"""Draws the transition tables into docs/contract.md (`python -m tests.diagrams`); a test keeps the two equal."""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from podium.log.transitions import RUN_TRANSITIONS, STEP_TRANSITIONS, TERMINAL, StepStatus

PAGE = Path(__file__).parents[1] / "docs" / "contract.md"
_PART = re.compile(r"(<!-- transitions: begin -->\n).*(<!-- transitions: end -->)", re.DOTALL)


def drawn() -> str:
    ended = (StepStatus.SUCCESS, StepStatus.FAILED, StepStatus.SKIPPED)
    return "\n".join(
        [
            "Runs:",
            "",
            *_diagram(RUN_TRANSITIONS, TERMINAL),
            "",
            "One attempt of a step:",
            "",
            *_diagram(STEP_TRANSITIONS, ended),
            "",
        ]
    )


def with_diagrams(text: str) -> str:
    return _PART.sub(lambda found: f"{found[1]}{drawn()}{found[2]}", text)


def _diagram(table: Mapping[str, tuple[frozenset[Any], StrEnum]], ends: Any) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> PENDING"]
    for event, (before, after) in table.items():
        lines += [f"    {status} --> {after}: {event}" for status in sorted(before) if status != after]
    lines += [f"    {end} --> [*]" for end in sorted(ends)]
    return [*lines, "```"]


if __name__ == "__main__":
    PAGE.write_text(with_diagrams(PAGE.read_text()))
