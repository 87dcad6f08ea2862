"""Checks a value against a JSON Schema, with the library `jsonschema-rs`.

It is given two rules. It never asks the network: a `$ref` to another document is refused. Patterns are searched in
linear time, so that no schema and no answer of an agent can stop the engine.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import jsonschema_rs

_MAX_MESSAGE: Final = 500


class InvalidSchema(Exception):
    """Not a JSON Schema: why."""


def schema_problem(value: Any, schema: Any) -> str | None:
    """The first thing that does not fit, with its place; None if everything fits."""
    try:
        validator = _validator(schema)
    except InvalidSchema as refused:
        return f"the schema cannot be used: {refused}"
    try:
        problem = next(iter(validator.iter_errors(value)), None)
    except ValueError as refused:
        return f"the value cannot be checked: {refused}"
    return None if problem is None else f"the value{_place(problem.instance_path)}: {_cut(problem.message)}"


def check_schema(schema: Any) -> None:
    """Raises InvalidSchema for one that no value could be checked against."""
    _validator(schema)


def _validator(schema: Any) -> "jsonschema_rs.Validator":
    import jsonschema_rs  # 30 ms: only workflows that check a result pay for it.

    try:
        return jsonschema_rs.validator_for(
            schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True, validate_formats=False
        )
    except (jsonschema_rs.ValidationError, ValueError) as refused:
        raise InvalidSchema(_cut(getattr(refused, "message", str(refused)))) from None


def _place(path: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 3]}..."
