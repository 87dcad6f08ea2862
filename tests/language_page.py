"""Writes the tables of docs/reference.md and the schema beside the examples (`python -m tests.language_page`).

Both are made from the loader's own table; tests keep them equal.
"""

import json
import re
from pathlib import Path

from podium.language.grammar import ACTIONS, BESIDE, RECORDS
from podium.language.json_schema import workflow_schema
from podium.language.shapes import (
    SECONDS,
    Anything,
    Choice,
    Either,
    Flag,
    ListOf,
    MapOf,
    Named,
    Number,
    Only,
    Record,
    Shape,
    Text,
)
from podium.machine.flow import Way, way_on
from podium.plan.plan import Discipline, End, Handlers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference.md"
SCHEMA = ROOT / "examples" / "workflow.schema.json"
_KEYS = re.compile(r"(<!-- keys: begin -->\n).*(<!-- keys: end -->)", re.DOTALL)
_FLOW = re.compile(r"(<!-- flow: begin -->\n).*(<!-- flow: end -->)", re.DOTALL)
_HEADINGS = {
    "workflow": "The file",
    "step": "A step",
    "on": "`on`",
    "target": "A target",
    "condition": "A condition",
}
_DISCIPLINES: dict[Discipline, str] = {
    "strict": "`strict_flow: true`",
    "implied": "version 2.0",
    "compatible": "`strict_flow: false`, version 1.0",
    "branch": "inside `for_each`, `parallel`, `steps`",
    "pass": "inside `while`, `repeat_until`",
    "cleanup": "inside `finally`",
}
_WAYS = {Way.NEXT: "next step", Way.FAILED: "failed", Way.NO_TRANSITION: "no transition"}


def with_tables(text: str) -> str:
    text = _FLOW.sub(lambda found: f"{found[1]}{flow_table()}{found[2]}", text)
    return _KEYS.sub(lambda found: f"{found[1]}{key_tables()}{found[2]}", text)


def schema_text() -> str:
    return json.dumps(workflow_schema(), indent=2) + "\n"


def flow_table() -> str:
    """From the machine's own function: what follows when no handler decides."""
    rows = ["| where | success | failure, timeout | event that `on` does not name | skipped |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for discipline, told in _DISCIPLINES.items():
        ways = (
            way_on(discipline, None, "success"),
            way_on(discipline, None, "failure"),
            way_on(discipline, Handlers(success=End()), "failure"),
            way_on(discipline, None, "skipped"),
        )
        rows.append(f"| {told} | {' | '.join(_WAYS[way] for way in ways if isinstance(way, Way))} |")
    return "\n".join(rows) + "\n"


def key_tables() -> str:
    parts = []
    for record in RECORDS.values():
        parts.append(f"### {_HEADINGS.get(record.name, f'`{record.name}`')}\n")
        if record.one_key:
            parts.append("Exactly one of these keys.\n")
        parts.append(_table(record))
    parts.append("### Which keys go together\n")
    parts.append(_beside())
    return "\n".join(parts) + "\n"


def _table(record: Record) -> str:
    rows = ["| key | takes | what for |", "| --- | --- | --- |"]
    for key, field in record.fields.items():
        required = " (required)" if field.required else ""
        rows.append(f"| `{key}` | {_cell(_told(field.shape))} | {_cell(field.doc)}{required} |")
    return "\n".join(rows) + "\n"


def _beside() -> str:
    """Per action what may stand beside it, without what every step may have."""
    every = set.intersection(*(set(keys) for keys in BESIDE.values()))
    rows = [
        f"Every step: {', '.join(f'`{key}`' for key in RECORDS['step'].fields if key in every)}.\n",
        "| a step with | may also have |",
        "| --- | --- |",
    ]
    for action, keys in BESIDE.items():
        own = {key for key, made in ACTIONS.items() if made == action}
        more = [f"`{key}`" for key in RECORDS["step"].fields if key in keys - every - own]
        name = (
            "no action (a gate)"
            if action == "gate"
            else " or ".join(f"`{key}`" for key in ACTIONS if key in own)
        )
        rows.append(f"| {name} | {', '.join(more) or 'nothing else'} |")
    return "\n".join(rows) + "\n"


def _told(shape: Shape) -> str:
    match shape:
        case Text():
            told = shape.expected + (" or a number" if shape.also_numbers else "")
            return f"{told}, `${{...}}`" if shape.template else told
        case Number():
            return _number(shape)
        case Flag():
            return "true or false"
        case Only():
            return "true" if shape.value else "false"
        case Choice():
            return ", ".join(f"`{word}`" for word in shape.words)
        case Anything():
            return "any data"
        case ListOf():
            included = f" or {_told(Named(shape.included))}" if shape.included else ""
            return f"list of: {_told(shape.item)}{included}"
        case MapOf():
            return f"map of: {_told(shape.value)}"
        case Either():
            return "; or ".join(map(_told, shape.shapes))
        case Record():
            return f"`{shape.name}`"
        case Named():
            return f"[{shape.name}](#{_anchor(shape.name)})"


def _anchor(name: str) -> str:
    heading = _HEADINGS.get(name, name)
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _number(shape: Number) -> str:
    return _bounded(shape) + (" or duration" if shape.unit == SECONDS else "")


def _bounded(shape: Number) -> str:
    kind = "whole number" if shape.integer else "number"
    if shape.above is not None:
        return f"{kind} above {shape.above:g}"
    if shape.least is not None and shape.most is not None:
        return f"{kind}, {shape.least:g} to {shape.most:g}"
    return f"{kind}, at least {shape.least:g}" if shape.least is not None else kind


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
    SCHEMA.write_text(schema_text())
