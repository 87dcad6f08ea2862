"""Writes the tables of docs/signals.md (`python -m tests.signals_page`), from the tables that the code itself uses.

Who may send what, and when, comes from tests/signal_table: what is tried in every cell on every engine.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podium.access.operations import SIGNALS
from podium.operations.signal_payloads import SCHEMAS
from podium.plan.overrides import KEYS, KEYS_OF, TARGETS
from podium.plan.plan import Agent, Approval, Command, Http, Python
from tests.signal_table.page import when_table, who_table

PAGE = Path(__file__).parents[1] / "docs" / "signals.md"
_TABLE = re.compile(r"(<!-- (?P<name>\w+): begin -->\n).*?(<!-- (?P=name): end -->)", re.DOTALL)
_KINDS = {Command: "`command`", Python: "`python`", Http: "`http`", Agent: "an agent", Approval: "`approval`"}
_CODES = {
    "RETRY_STEP": ("STEP_NOT_TERMINAL", "STEP_TERMINAL"),
    "SKIP_STEP": ("STEP_RUNNING", "STEP_TERMINAL"),
    "INJECT_OVERRIDE": ("STEP_TERMINAL",),
    "UPDATE_TARGET": ("STEP_TERMINAL",),
}


def with_tables(text: str) -> str:
    return _TABLE.sub(lambda found: f"{found[1]}{_TABLES[found['name']]()}{found[3]}", text)


def signal_table() -> str:
    rows = ["| signal | role | payload | effect | codes of its own |", "| --- | --- | --- | --- | --- |"]
    for name, schema in SCHEMAS.items():
        codes = ", ".join(f"`{code}`" for code in _CODES.get(name, ()))
        operation = SIGNALS[name]
        role = operation.role.value + (", reason required" if operation.needs_reason else "")
        rows.append(f"| {name} | {role} | {_fields(schema)} | {schema['description']} | {codes} |")
    return "\n".join(rows) + "\n"


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    fields = [
        f"`{name}`{'' if name in required else '?'} {_shape(one)}"
        for name, one in schema["properties"].items()
    ]
    return "; ".join(fields) or "none"


def _shape(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(schema["enum"])
    kind = schema.get("type", "any JSON")
    named = kind if isinstance(kind, str) else " or ".join(kind)
    longest = schema.get("maxLength")
    if longest is None:
        return named
    return f"{named}, {'' if schema.get('minLength') == longest else 'at most '}{longest} characters"


def key_table() -> str:
    rows = ["| a step with | keys of `override` | `newTarget` |", "| --- | --- | --- |"]
    for body, title in _KINDS.items():
        keys = ", ".join(f"`{key}`" for key in KEYS_OF[body])
        rows.append(f"| {title} | {keys} | {TARGETS[body]} |")
    rows.append("| anything else (`set`, loops, groups, calls) | none | none |")
    return "\n".join(rows) + "\n"


def value_table() -> str:
    rows = ["| key | value |", "| --- | --- |"]
    for key, schema in KEYS.items():
        rows.append(f"| `{key}` | {_value(schema)} |")
    return "\n".join(rows) + "\n"


def _value(schema: Mapping[str, Any]) -> str:
    if "properties" in schema:
        return "; ".join(f"`{key}`: {_value(one)}" for key, one in schema["properties"].items())
    inner = schema.get("additionalProperties")
    text = f"map of {_shape(inner)}" if isinstance(inner, dict) else _shape(schema)
    for name, words in (("minimum", "at least"), ("exclusiveMinimum", "more than"), ("maximum", "at most")):
        text += f", {words} {schema[name]}" if name in schema else ""
    return text


_TABLES: dict[str, Callable[[], str]] = {
    "signals": signal_table,
    "keys": key_table,
    "values": value_table,
    "who": who_table,
    "when": when_table,
}


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
