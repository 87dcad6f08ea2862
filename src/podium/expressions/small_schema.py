"""Checks a value against a JSON Schema of a few keywords, with readable messages and without a library.

For payloads that people send: the schema is published, and the same table refuses what does not fit. Loading
the library for users' schemas takes longer than sending a signal (`json_schema.py`).
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

Schema = Mapping[str, Any]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
_ARTICLES: Final = {"integer": "a whole number", "object": "a map", "array": "a list", "null": "null"}
_MAX_SHOWN: Final = 60


def first_problem(value: Any, schema: Schema, name: str) -> str | None:
    """What does not fit, in words that start with the place; None if everything fits."""
    return next(_problems(value, schema, name), None)


def _problems(value: Any, schema: Schema, name: str) -> Iterator[str]:
    wanted = schema.get("type")
    types = (wanted,) if isinstance(wanted, str) else tuple(wanted or ())
    if types and not any(_is_type(value, one) for one in types):
        yield f"{name} has to be {' or '.join(map(type_name, types))}, not {_shown(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(map(str, schema["enum"]))
        yield f"{name} has to be one of {choices}, not {_shown(value)}"
    if isinstance(value, str):
        yield from _problems_of_text(value, schema, name)
    elif isinstance(value, dict):
        yield from _problems_of_map(value, schema, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _problems_of_number(value, schema, name)


def _is_type(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if isinstance(value, float) and value != value:
        return False
    return isinstance(value, _TYPES[wanted])


def type_name(wanted: str) -> str:
    return _ARTICLES.get(wanted, f"a {wanted}")


def _problems_of_text(value: str, schema: Schema, name: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"{name} is empty"
    longest = schema.get("maxLength")
    if longest is not None and len(value) > longest:
        yield f"{name} is longer than {longest} characters; shorten it"


def _problems_of_number(value: float, schema: Schema, name: str) -> Iterator[str]:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    if least is not None and value < least:
        yield f"{name} has to be at least {least}, not {value}"
    if above is not None and value <= above:
        yield f"{name} has to be more than {above}, not {value}"
    if most is not None and value > most:
        yield f"{name} has to be at most {most}, not {value}"


def _problems_of_map(value: dict[str, Any], schema: Schema, name: str) -> Iterator[str]:
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, inner in value.items():
        place = f"'{key}' of {name}"
        if key in known:
            yield from _problems(inner, known[key], place)
        elif others is False:
            yield f"{name} has no field {key!r}; {_fields(key, list(known))}"
        elif isinstance(others, Mapping):
            yield from _problems(inner, others, place)
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{name} needs the field {key!r}"
    if len(value) < schema.get("minProperties", 0):
        yield f"{name} is empty; {_fields('', list(known))}"


def _fields(key: str, known: list[str]) -> str:
    near = nearest(key, known, 1)
    listed = f"fields: {', '.join(known) or 'none'}"
    return f"did you mean {near[0]!r}? {listed}" if near else listed


def nearest(name: str, known: list[str], most: int) -> list[str]:
    """The known names that a wrong one may have been meant to be."""
    return get_close_matches(name, known, n=most)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
