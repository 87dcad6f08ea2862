"""Is a value plain JSON? Actions and outputs travel between machines, so nothing else may be in them."""

from math import isfinite

# Deeper than any real payload; also what ends the walk through a value that contains itself.
_MAX_DEPTH = 200


def first_unserializable(value: object) -> str | None:
    """Where and what is the first part of `value` that JSON cannot carry; None if there is none."""
    open_parts: list[tuple[str, int, object]] = [("", 0, value)]
    while open_parts:
        path, depth, part = open_parts.pop()
        if part is None or isinstance(part, str | bool | int):
            continue
        if isinstance(part, float):
            if not isfinite(part):
                return f"{path or 'the value'} is {part}, which JSON does not have"
        elif depth >= _MAX_DEPTH:
            return f"{path[:40]}... is nested more than {_MAX_DEPTH} deep"
        elif isinstance(part, dict):
            for key, item in reversed(part.items()):
                if not isinstance(key, str):
                    return f"{path or 'the value'} has a key of type {type(key).__name__}, not text"
                open_parts.append((f"{path}.{key}" if path else key, depth + 1, item))
        elif isinstance(part, list):
            open_parts.extend(
                (f"{path}[{index}]", depth + 1, part[index]) for index in range(len(part) - 1, -1, -1)
            )
        else:
            return f"{path or 'the value'} is of type {type(part).__name__}"
    return None
