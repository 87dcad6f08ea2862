"""Where a value does not fit a schema that refers to itself or to its parts.

The library decides in linear time whether a value fits, but it collects the errors of all alternatives at
every level: for a schema that refers to itself this takes years for a value of a few dozen levels. So here
the place is searched from the outside to the inside, and the library is only asked whether a part fits.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

# Takes the pointer of a part of the schema and a value: does the value fit? Missing parts must not be passed.
Fits = Callable[[str, Any], bool]
# What does not fit a schema without references, or None.
Problem = Callable[[Any, dict[str, Any]], str | None]
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# Keywords with schemas inside, which are examined one by one.
_WITH_SCHEMAS: Final = _REFERENCES | {
    "$defs", "additionalProperties", "allOf", "anyOf", "contains", "definitions", "dependentSchemas", "dependencies",
    "else", "if", "items", "additionalItems", "maxContains", "minContains", "not", "oneOf", "patternProperties",
    "prefixItems", "properties", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "$id", "id",
}  # fmt: skip


class Place(msgspec.Struct, frozen=True):
    """A part of the value, and the part of the schema that it does not fit."""

    path: tuple[str | int, ...]
    value: Any
    pointer: str


def has_references(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return not _REFERENCES.isdisjoint(schema) or any(has_references(part) for part in schema.values())
    return isinstance(schema, list | tuple) and any(has_references(part) for part in schema)


def innermost(root: Any, value: Any, fits: Fits) -> Place:
    """The innermost part that is known not to fit."""
    place = Place((), value, "#")
    seen: set[tuple[str, int]] = set()
    while (place.pointer, len(place.path)) not in seen:
        seen.add((place.pointer, len(place.path)))
        inner = (
            one for one in _parts(part_at(root, place.pointer), place) if not fits(one.pointer, one.value)
        )
        place = next(inner, place)
    return place


def _parts(schema: Any, place: Place) -> Iterator[Place]:
    """The parts that a value has to fit in any case."""
    if not isinstance(schema, Mapping):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        yield msgspec.structs.replace(place, pointer=unquote(reference))
    for number, _ in enumerate(schema.get("allOf") or ()):
        yield msgspec.structs.replace(place, pointer=f"{place.pointer}/allOf/{number}")
    if isinstance(place.value, dict):
        for name in schema.get("properties") or ():
            if name in place.value:
                yield _part(place, name, f"properties/{_escaped(name)}")
    elif isinstance(place.value, list):
        first = len(schema.get("prefixItems") or ())
        for number in range(len(place.value)):
            yield _part(place, number, f"prefixItems/{number}" if number < first else "items")


def _part(place: Place, key: str | int, keyword: str) -> Place:
    return Place((*place.path, key), place.value[key], f"{place.pointer}/{keyword}")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def part_at(root: Any, pointer: str) -> Any:
    """The part of a schema that a pointer leads to, or None."""
    part = root
    for name in pointer.removeprefix("#").split("/")[1:]:
        plain = name.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(plain)
        elif isinstance(part, list | tuple) and plain.isdecimal() and int(plain) < len(part):
            part = part[int(plain)]
        else:
            return None
    return part


def reason_at(schema: Any, place: Place, problem: Problem) -> str:
    """Why it does not fit: a keyword without schemas inside, or else the first one with alternatives."""
    if isinstance(schema, Mapping) and (found := problem(place.value, _flat(schema))) is not None:
        return found
    import json  # Imported with the first value that does not fit.

    text = json.dumps(place.value, ensure_ascii=False)
    if isinstance(schema, Mapping):
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return f"{text} does not fit the schemas listed in the '{keyword}' keyword"
    return f"{text} does not fit the schema at {place.pointer}"


def _flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without its subschemas: its own keywords, and which properties it knows."""
    flat = {name: part for name, part in schema.items() if name not in _WITH_SCHEMAS}
    if schema.get("additionalProperties") is False:
        known = dict.fromkeys(schema.get("properties") or {}, True)
        patterns = dict.fromkeys(schema.get("patternProperties") or {}, True)
        flat |= {"properties": known, "patternProperties": patterns, "additionalProperties": False}
    return flat
