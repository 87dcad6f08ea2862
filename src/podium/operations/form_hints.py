"""The options with which `podium approve` fills in a form. They are accepted as printed, with placeholders."""

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any, Final

from podium.plan.plan import FormField

_PLACEHOLDERS: Final[dict[str, Any]] = {
    "string": "VALUE",
    "int": 0,
    "number": 0,
    "bool": True,
    "list": [],
    "map": {},
}


def required_fields(form: Mapping[str, FormField]) -> dict[str, FormField]:
    return {name: field for name, field in form.items() if field.required}


def field_options(form: Mapping[str, FormField]) -> str:
    """`--field NAME=PLACEHOLDER` for every required field, quoted for a shell."""
    return " ".join(
        f"--field {quote(f'{name}={_placeholder(field)}')}" for name, field in required_fields(form).items()
    )


def values_wanted(form: Mapping[str, FormField]) -> str:
    """The values to replace the placeholders with; empty if nothing is required."""
    listed = ", ".join(f"{name} ({_allowed(field)})" for name, field in required_fields(form).items())
    return f"with your values: {listed}" if listed else ""


def describe_field(field: FormField) -> str:
    """`low or high, required`, `int`."""
    return f"{_allowed(field)}{', required' if field.required else ''}"


def _placeholder(field: FormField) -> str:
    return _as_text(field.enum[0] if field.enum else _PLACEHOLDERS[field.type])


def _allowed(field: FormField) -> str:
    values = field.enum or ((True, False) if field.type == "bool" else ())
    return " or ".join(_as_text(value) for value in values) or field.type


def _as_text(value: Any) -> str:
    """In the format of `--field`: everything but a string is JSON."""
    return value if isinstance(value, str) else json.dumps(value)
