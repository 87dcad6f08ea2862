"""Values that are declared before they are given: inputs of a run, fields of a form. Both use the same check."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, Protocol

from podium.text import shortened

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "int": (int,),
    "number": (int, float),
    "bool": (bool,),
    "list": (list,),
    "map": (dict,),
}
_MAX_SHOWN: Final = 100


class Declared(Protocol):
    @property
    def type(self) -> str: ...

    @property
    def required(self) -> bool: ...

    @property
    def enum(self) -> tuple[Any, ...]: ...


def fits(type_: str, value: Any) -> bool:
    """Whether a value is of a declared type. A bool is not a number."""
    if isinstance(value, bool) and type_ != "bool":
        return False
    return isinstance(value, _TYPES[type_])


def parse_text(text: str, type_: str) -> Any:
    """Parse a value given as text: anything but a string is written as JSON. Raises ValueError."""
    if type_ == "string":
        return text
    import json

    return json.loads(text, parse_constant=_refuse)


def read_text(text: str, wanted: Declared) -> Any:
    """Like `parse_text`. A text that cannot be parsed stays as it is: `problem_of` reports what is wrong."""
    try:
        return parse_text(text, wanted.type)
    except ValueError:
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def problem_of(value: Any, wanted: Declared) -> str:
    """What is wrong with a value, as the end of a sentence about it; empty if it is valid."""
    if not fits(wanted.type, value):
        return f"is {_shown(value)}, but its type is {wanted.type}"
    if _has_other_numbers(value):
        return f"is {_shown(value)}: JSON has no number that is NaN or infinite"
    if wanted.enum and value not in wanted.enum:
        return f"is {_shown(value)}; allowed: {', '.join(map(str, wanted.enum))}"
    return ""


def _has_other_numbers(value: Any) -> bool:
    """Numbers that JSON does not have, which would be recorded as null."""
    try:
        return not _is_finite(value)
    except RecursionError:
        # Nested more deeply than an event may be, which is refused where it is written.
        return False


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, list | tuple) else True


def form_problem(given: Any, declared: Mapping[str, Declared]) -> str:
    """The first thing that is wrong with a filled-in form; empty if it is valid."""
    if not isinstance(given, Mapping):
        return f"the form is {_shown(given)}, not a mapping of fields"
    for name, value in given.items():
        wanted = declared.get(name)
        if wanted is None:
            known = ", ".join(declared)
            return f"the form has no field {_shown(name)}" + (
                f"; fields: {known}" if known else " and no others"
            )
        if problem := problem_of(value, wanted):
            return f"the field {name!r} {problem}"
    for name, wanted in declared.items():
        if wanted.required and name not in given:
            allowed = f"; allowed: {', '.join(map(str, wanted.enum))}" if wanted.enum else f" ({wanted.type})"
            return f"the form needs the field {name!r}{allowed}"
    return ""


def _shown(value: Any) -> str:
    return shortened(repr(value), _MAX_SHOWN)
