"""Checks a value against a JSON Schema, with the library `jsonschema-rs`.

Two restrictions apply. It never uses the network: a `$ref` to another document is refused. Patterns are
searched in linear time, and errors of a schema with references are not collected (`schema_places.py`), so
that no schema and no answer of an agent can stall the engine.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from podium.expressions.schema_places import has_references, innermost, part_at, reason_at

if TYPE_CHECKING:
    import jsonschema_rs

_MAX_MESSAGE: Final = 500


class InvalidSchema(Exception):
    """Not a JSON Schema, and why."""


def schema_problem(value: Any, schema: Any) -> str | None:
    """The first thing that does not fit, with its place; None if everything fits."""
    try:
        validator = _validator(schema)
    except InvalidSchema as refused:
        return f"the schema cannot be used: {refused}"
    try:
        if validator.is_valid(value):
            return None
        if has_references(schema):
            return _found_inside(value, schema)
        problem = next(iter(validator.iter_errors(value)), None)
    except (ValueError, InvalidSchema) as refused:
        return f"the value cannot be checked: {refused}"
    return None if problem is None else f"the value{_place(problem.instance_path)}: {_cut(problem.message)}"


def _found_inside(value: Any, schema: Any) -> str:
    """Does not collect errors: there can be more than fit into memory."""
    import jsonschema_rs

    validators = jsonschema_rs.validator_map_for(
        schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True, validate_formats=False
    )

    def fits(pointer: str, part: Any) -> bool:
        validator = validators.get(pointer)
        return validator is None or validator.is_valid(part)

    place = innermost(schema, value, fits)
    draft = {name: schema[name] for name in ("$schema",) if name in schema}
    reason = reason_at(part_at(schema, place.pointer), place, partial(_flat_problem, draft))
    return f"the value{_place(place.path)}: {_cut(reason)}"


def _flat_problem(draft: dict[str, Any], value: Any, schema: dict[str, Any]) -> str | None:
    problem = next(iter(_validator({**schema, **draft}).iter_errors(value)), None)
    return None if problem is None else problem.message


def check_schema(schema: Any) -> None:
    """Raises InvalidSchema for a schema that no value could be checked against."""
    _validator(schema)


def _validator(schema: Any) -> "jsonschema_rs.Validator":
    import jsonschema_rs  # 30 ms, needed only by workflows that check a result

    try:
        return jsonschema_rs.validator_for(
            schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True, validate_formats=False
        )
    except (jsonschema_rs.ValidationError, ValueError) as refused:
        raise InvalidSchema(_cut(getattr(refused, "message", str(refused)))) from None


def _place(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 3]}..."
