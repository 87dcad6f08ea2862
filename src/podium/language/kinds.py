"""What is known about the type of a value before the value exists.

`int(${x})` is a number whatever `x` will be, and `${steps.Build.output}` will be text or, before the step has
run, null. A problem is reported while a file is read only if it occurs for every kind that is still possible.
"""

from enum import Flag, auto


class Kinds(Flag):
    NULL = auto()
    BOOL = auto()
    NUMBER = auto()
    TEXT = auto()
    LIST = auto()
    MAP = auto()
    ANY = NULL | BOOL | NUMBER | TEXT | LIST | MAP


def type_name(kinds: Kinds) -> str:
    """The kinds in the words of a message: 'text or null'."""
    return " or ".join(word for kind, word in _WORDS.items() if kind in kinds)


_WORDS = {
    Kinds.BOOL: "a boolean",
    Kinds.NUMBER: "a number",
    Kinds.TEXT: "text",
    Kinds.LIST: "a list",
    Kinds.MAP: "a map",
    Kinds.NULL: "null",
}
