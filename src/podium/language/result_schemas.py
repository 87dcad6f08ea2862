"""Whether the schema for a step's result is a valid JSON Schema.

Common keywords, and those that contain further schemas, must have the form that the standard requires: these
mistakes are reported with their position. The library that checks results decides about the rest.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from podium.expressions.json_schema import InvalidSchema, check_schema
from podium.expressions.patterns import InvalidPattern, compile_pattern
from podium.language.problems import suggestion
from podium.language.tree import NodePath
from podium.text import quoted

_JSON_TYPES: Final = ("object", "array", "string", "boolean", "null", "integer", "number")


class Mistake(NamedTuple):
    """A mistake in a schema: where, and what would be correct."""

    path: NodePath
    message: str
    hint: str


def mistakes_of(schema: Any) -> list[Mistake]:
    """Everything that makes it an invalid JSON Schema, from the outside inwards."""
    found: list[Mistake] = []
    # Not recursive: the depth of a schema in a file of its own is not limited.
    to_read: deque[tuple[NodePath, Any]] = deque([((), schema)])
    while to_read:
        path, one = to_read.popleft()
        if isinstance(one, dict):
            for keyword, value in one.items():
                to_read += _inner_schemas((*path, keyword), keyword, value)
                wrong = _wrong(keyword, value, schema)
                if wrong is not None:
                    found.append(Mistake((*path, *wrong[0]), wrong[1], wrong[2]))
        elif not isinstance(one, bool):
            name = quoted(str(path[-1]))
            hint = "Write a mapping like `type: string`, or true to allow anything."
            found.append(Mistake(path, f"{name} is {_describe(one)}, which is not a schema.", hint))
    return found or _refused(schema)


def _refused(schema: Any) -> list[Mistake]:
    """What only the library finds: a step must not run and then fail because its schema is unusable."""
    try:
        check_schema(schema)
    except InvalidSchema as refused:
        return [Mistake((), f"the schema cannot be used: {refused}.", "Write it as the standard has it.")]
    return []


def _inner_schemas(path: NodePath, keyword: str, value: Any) -> list[tuple[NodePath, Any]]:
    if keyword in _NAMED and isinstance(value, dict):
        return [((*path, name), inner) for name, inner in value.items()]
    # Before 2020-12 `items` could be a list, too.
    if keyword in _LISTED or (keyword == "items" and isinstance(value, list)):
        return (
            [((*path, index), inner) for index, inner in enumerate(value)] if isinstance(value, list) else []
        )
    return [(path, value)] if keyword in _SINGLE else []


_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE: Final = frozenset(
    {
        "additionalProperties", "items", "not", "contains", "propertyNames", "if", "then", "else",
        "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip

# The place below the schema, what is wrong, what to write.
_Wrong = tuple[NodePath, str, str]


def _wrong(keyword: str, value: Any, root: Any) -> _Wrong | None:
    if keyword in ("type", "pattern", "$ref", "multipleOf"):
        return {"type": _type, "pattern": _pattern, "$ref": _reference, "multipleOf": _multiple}[keyword](
            value, root
        )
    form = _FORMS.get(keyword)
    if form is None or form[0](value):
        return None
    return (keyword,), f"{quoted(keyword)} cannot be {_describe(value)}.", f"Write {form[1]}."


def _type(value: Any, _root: Any) -> _Wrong | None:
    if value == []:
        return ("type",), "'type' is an empty list.", "Write at least one type, like string."
    names = value if isinstance(value, list) else [value]
    for index, name in enumerate(names):
        if name not in _JSON_TYPES:
            path = ("type", index) if isinstance(value, list) else ("type",)
            return path, f"'type' is {_describe(name)}, which is not a JSON type.", _type_hint(name)
    return None


def _type_hint(name: Any) -> str:
    if name is None:
        # YAML reads the bare word as null, which is the most common cause.
        return 'Write "null" in quotes to allow null, or another type.'
    return suggestion(str(name), _JSON_TYPES, "types")


def _pattern(value: Any, _root: Any) -> _Wrong | None:
    if not isinstance(value, str):
        return ("pattern",), f"'pattern' cannot be {_describe(value)}.", "Write a regular expression as text."
    try:
        compile_pattern(value)
    except InvalidPattern as problem:
        return ("pattern",), f"the pattern {quoted(value)} cannot be used: {problem}.", problem.hint
    return None


def _reference(value: Any, root: Any) -> _Wrong | None:
    if isinstance(value, str) and _leads_somewhere(value, root):
        return None
    message = f"'$ref' is {_describe(value)}, which is not a place in this schema."
    return ("$ref",), message, "Write the way to it, like '#/$defs/name'."


def _leads_somewhere(reference: str, root: Any) -> bool:
    """Whether a `$ref` can be resolved. The library handles other documents."""
    return not reference.startswith("#") or _referred(reference, root) is not _NOWHERE


def _referred(reference: str, root: Any) -> Any:
    first, *parts = reference[1:].split("/")
    found = root if not first else _NOWHERE
    for part in parts:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and len(part) < 10 and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            return _NOWHERE
    return found


_NOWHERE: Final = object()


def _multiple(value: Any, _root: Any) -> _Wrong | None:
    if _is_number(value) and value > 0:
        return None
    return ("multipleOf",), f"'multipleOf' cannot be {_describe(value)}.", "Write a number of more than 0."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_Form = tuple[Callable[[Any], bool], str]
_COUNT: Final[_Form] = (_is_count, "a whole number of 0 or more")
_NUMBER: Final[_Form] = (_is_number, "a number")
_SCHEMAS: Final[_Form] = (
    lambda value: isinstance(value, list) and bool(value),
    "a list of at least one schema",
)
_SCHEMAS_BY_NAME: Final[_Form] = (lambda value: isinstance(value, dict), "a mapping of names to schemas")
_FORMS: Final[dict[str, _Form]] = {
    **dict.fromkeys(
        ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), _COUNT
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(_LISTED, _SCHEMAS),
    **dict.fromkeys(_NAMED, _SCHEMAS_BY_NAME),
    "required": (_is_names, "a list of names, beside `properties` and not inside of them"),
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
}


def _describe(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {quoted(value)}"
        case list():
            return "a list" if value else "an empty list"
        case _:
            return "a mapping"
