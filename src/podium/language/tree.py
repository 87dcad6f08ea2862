"""A YAML document as a tree that remembers where everything was.

The nodes of a large file are many: they are hidden from the garbage collector (`gc=False`), which a tree allows.
"""

from typing import TypeAlias

import msgspec

from podium.text import quoted

Plain: TypeAlias = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


class Scalar(msgspec.Struct, gc=False):
    """One value. `text` is what was written; `value` is what YAML 1.2 makes of it."""

    start: int
    end: int
    text: str
    value: None | bool | int | float | str


class Sequence(msgspec.Struct, gc=False):
    start: int
    end: int
    items: list["Node"]


class Entry(msgspec.Struct, gc=False):
    """One line of a mapping; keys are always text, also `1`, `true` or `on`."""

    key: Scalar
    value: "Node"


class Mapping(msgspec.Struct, gc=False):
    start: int
    end: int
    entries: dict[str, Entry]


Node: TypeAlias = Scalar | Sequence | Mapping
# The way to a node: keys of mappings and indexes of lists.
NodePath: TypeAlias = tuple[str | int, ...]


def plain(node: Node) -> Plain:
    """The same without positions. The reader has bounded the depth, so recursion is safe."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [plain(item) for item in node.items]
        case Mapping():
            return {key: plain(entry.value) for key, entry in node.entries.items()}


def find(node: Node, path: NodePath) -> Node | None:
    """The node at `path`, if there is one."""
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node.entries:
            node = node.entries[part].value
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def existing_part(node: Node, path: NodePath) -> NodePath:
    """As much of `path` as leads somewhere."""
    while path and find(node, path) is None:
        path = path[:-1]
    return path


def mark(node: Node) -> tuple[int, int]:
    """What to point at when a message is about this node: of a collection, where it starts."""
    match node:
        case Scalar():
            return node.start, node.end
        case Mapping(entries=entries) if entries:
            first = next(iter(entries.values())).key
            return first.start, first.end
        case _:
            return node.start, node.start + 1


def describe(node: Node) -> str:
    """What a node is, in the words of a message."""
    match node:
        case Sequence():
            return "a list"
        case Mapping():
            return "a mapping"
        case Scalar(value=None):
            return "empty"
        case Scalar(value=bool()):
            return node.text
        case Scalar(value=int() | float()):
            return f"the number {node.text}"
        case Scalar():
            return f"the text {quoted(node.text)}"
