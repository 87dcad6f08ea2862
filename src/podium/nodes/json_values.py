"""Whether a value is plain JSON. Actions and outputs are sent between machines, so they must not contain
anything else.
"""

from math import isfinite
from typing import TypeAlias

# Deeper than any real payload; also ends the walk through a value that contains itself.
_MAX_DEPTH = 200

# A part of the value, its name in its parent, and the parent.
_Part: TypeAlias = tuple[object, str, "_Part | None", int]


def first_unserializable(value: object) -> str | None:
    """The path and kind of the first part of `value` that JSON cannot represent; None if there is none."""
    open_parts: list[_Part] = [(value, "", None, 0)]
    while open_parts:
        entry = open_parts.pop()
        part, depth = entry[0], entry[3]
        if part is None or isinstance(part, str | int):
            continue
        if isinstance(part, float):
            if not isfinite(part):
                return f"{_path(entry)} is {part}, which JSON does not have"
        elif isinstance(part, dict | list) and depth >= _MAX_DEPTH:
            return f"it is nested more than {_MAX_DEPTH} deep"
        elif isinstance(part, dict):
            for key, item in reversed(part.items()):
                if not isinstance(key, str):
                    return f"{_path(entry)} has a key of type {type(key).__name__}, not text"
                if type(item) is not str:
                    open_parts.append((item, f".{key}", entry, depth + 1))
        elif isinstance(part, list):
            open_parts.extend((part[i], f"[{i}]", entry, depth + 1) for i in reversed(range(len(part))))
        else:
            return f"{_path(entry)} is of type {type(part).__name__}"
    return None


def _path(part: _Part) -> str:
    names = []
    at: _Part | None = part
    while at is not None:
        names.append(at[1])
        at = at[2]
    return "".join(reversed(names)).removeprefix(".") or "the value"
