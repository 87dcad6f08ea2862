"""What would be valid at a place of a request, in words, from the types of its handler."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

_Schema: TypeAlias = Mapping[str, Any]
_PLACE: Final = re.compile(r"\.([^.\[\]]+)|\[([^\]]*)\]")
_FORMATS: Final = {"date-time": "a moment like 2026-01-01T09:00:00Z"}
_WORDS: Final = {"string": "text", "number": "a number", "boolean": "true or false", "array": "a list"}


def valid_in_body(type_: Any, place: str) -> str:
    """`place`: like `$.labels[...]`. Empty if it is not a place of this type."""
    root = _schema(type_)
    found: _Schema | None = root
    for name, _index in _PLACE.findall(place):
        found = _inside(_resolved(found, root), name) if found is not None else None
    return _described(found, root) if found is not None else ""


def valid_in_query(type_: Any, least: float | None = None, most: float | None = None) -> str:
    """`least`, `most`: limits that the type itself does not have."""
    root = _schema(type_)
    limits = {"minimum": least, "maximum": most}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return _described({**_resolved(root, root), **known}, root)


@cache
def _schema(type_: Any) -> dict[str, Any]:
    return msgspec.json.schema(type_)


def _resolved(schema: _Schema, root: _Schema) -> _Schema:
    """Without references; of a value that may be null, the other one."""
    if "$ref" in schema:
        return _resolved(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    given = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _resolved(given[0], root) if len(given) == 1 else schema


def _inside(schema: _Schema, name: str) -> _Schema | None:
    """One field of an object, or any item of a list or a mapping."""
    found = schema.get("properties", {}).get(name) if name else schema.get("items")
    if found is None and not name:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def _described(schema: _Schema, root: _Schema) -> str:
    schema = _resolved(schema, root)
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = schema.get("type")
    if kind == "object":
        names = schema.get("properties", ())
        return f"fields: {', '.join(names)}" if names else "an object"
    if kind == "integer":
        return "a whole number" + _range(schema.get("minimum"), schema.get("maximum"))
    if kind == "array" and "items" in schema:
        return f"a list of: {_described(schema['items'], root)}"
    if kind == "string" and "maxLength" in schema:
        return f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    return _FORMATS.get(schema.get("format", ""), _WORDS.get(str(kind), ""))


def _range(least: int | None, most: int | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    if most is not None:
        return f" of at most {most}"
    return f" of at least {least}" if least is not None else ""
