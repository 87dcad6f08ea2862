"""Does a value fit a JSON Schema? The part of the standard that results of steps are described with.

type, enum, const, properties, required, additionalProperties, items, minItems, maxItems, uniqueItems, minLength,
maxLength, pattern (our own linear matcher), minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf,
oneOf, allOf, not, and $ref into the schema itself. Other keywords say nothing, as the standard has it.
"""

import operator
from typing import Any, Final

from podium.expressions.patterns import InvalidPattern, compile_pattern

_MAX_DEPTH: Final = 64
_TYPES: Final = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}
JSON_TYPES: Final = (*_TYPES, "integer", "number")


def schema_problem(value: Any, schema: Any) -> str | None:
    """The first thing that does not fit, with its place; None if all does."""
    return _problem(value, schema, schema, "the value", 0)


def _problem(value: Any, schema: Any, root: Any, at: str, depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        return f"{at} is nested too deep"
    if schema is True or not isinstance(schema, dict):
        return f"{at} is not allowed" if schema is False else None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _problem(value, _referred(reference, root), root, at, depth + 1)
    for check in (_type, _values, _numbers, _texts):
        problem = check(value, schema, at)
        if problem is not None:
            return problem
    problem = _object(value, schema, root, at, depth) if isinstance(value, dict) else None
    problem = problem or (_array(value, schema, root, at, depth) if isinstance(value, list) else None)
    return problem or _combined(value, schema, root, at, depth)


def leads_somewhere(reference: str, root: Any) -> bool:
    """Whether a `$ref` can be followed. One to another schema can not, and is let pass: it says nothing here."""
    return not reference.startswith("#") or _referred(reference, root) is not _NOWHERE


def _referred(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return True
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


# Like everything that is no schema it says nothing; the loader has refused it.
_NOWHERE: Final = object()


def _type(value: Any, schema: dict[str, Any], at: str) -> str | None:
    wanted = schema.get("type")
    if wanted is None:
        return None
    names = wanted if isinstance(wanted, list) else [wanted]
    if any(_is(value, str(name)) for name in names):
        return None
    return f"{at} is not of type {' or '.join(map(str, names))}"


def _is(value: Any, name: str) -> bool:
    if name in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return name == "number" or isinstance(value, int) or value.is_integer()
    return isinstance(value, _TYPES.get(name, ()))


def _values(value: Any, schema: dict[str, Any], at: str) -> str | None:
    if "const" in schema and not _same(value, schema["const"]):
        return f"{at} is not {schema['const']!r}"
    enum = schema.get("enum")
    if isinstance(enum, list) and not any(_same(value, one) for one in enum):
        return f"{at} is none of {', '.join(map(repr, enum[:10]))}"
    return None


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _numbers(value: Any, schema: dict[str, Any], at: str) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for keyword, wrong, message in (
        ("minimum", operator.lt, "less than"),
        ("maximum", operator.gt, "more than"),
        ("exclusiveMinimum", operator.le, "not more than"),
        ("exclusiveMaximum", operator.ge, "not less than"),
    ):
        bound = schema.get(keyword)
        if isinstance(bound, int | float) and wrong(value, bound):
            return f"{at} is {message} {bound}"
    multiple = schema.get("multipleOf")
    if isinstance(multiple, int | float) and multiple > 0 and (value / multiple) % 1:
        return f"{at} is no multiple of {multiple}"
    return None


def _texts(value: Any, schema: dict[str, Any], at: str) -> str | None:
    if not isinstance(value, str):
        return None
    if isinstance(schema.get("minLength"), int) and len(value) < schema["minLength"]:
        return f"{at} is shorter than {schema['minLength']} characters"
    if isinstance(schema.get("maxLength"), int) and len(value) > schema["maxLength"]:
        return f"{at} is longer than {schema['maxLength']} characters"
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            matches = compile_pattern(pattern).found_in(value)
        except InvalidPattern as problem:
            return f"the pattern {pattern!r} of {at} cannot be used: {problem}"
        if not matches:
            return f"{at} does not match {pattern!r}"
    return None


def _object(value: dict[str, Any], schema: dict[str, Any], root: Any, at: str, depth: int) -> str | None:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at} has no {name!r}"
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    others = schema.get("additionalProperties", True)
    for name, inner in value.items():
        problem = _problem(inner, properties.get(name, others), root, f"{at}.{name}", depth + 1)
        if problem is not None:
            return problem
    return None


def _array(value: list[Any], schema: dict[str, Any], root: Any, at: str, depth: int) -> str | None:
    if isinstance(schema.get("minItems"), int) and len(value) < schema["minItems"]:
        return f"{at} has fewer than {schema['minItems']} items"
    if isinstance(schema.get("maxItems"), int) and len(value) > schema["maxItems"]:
        return f"{at} has more than {schema['maxItems']} items"
    if schema.get("uniqueItems") is True and any(_same(a, b) for i, a in enumerate(value) for b in value[:i]):
        return f"{at} has the same item twice"
    for index, item in enumerate(value):
        problem = _problem(item, schema.get("items", True), root, f"{at}[{index}]", depth + 1)
        if problem is not None:
            return problem
    return None


def _combined(value: Any, schema: dict[str, Any], root: Any, at: str, depth: int) -> str | None:
    for one in schema.get("allOf", ()):
        problem = _problem(value, one, root, at, depth + 1)
        if problem is not None:
            return problem
    for keyword, least, most in (("anyOf", 1, None), ("oneOf", 1, 1)):
        options = schema.get(keyword)
        if isinstance(options, list):
            fitting = sum(_problem(value, one, root, at, depth + 1) is None for one in options)
            if fitting < least or (most is not None and fitting > most):
                return f"{at} fits {fitting} of the {len(options)} in {keyword}"
    if "not" in schema and _problem(value, schema["not"], root, at, depth + 1) is None:
        return f"{at} fits what it must not"
    return None
