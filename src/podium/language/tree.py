"""A YAML document as a tree that records the position of everything.

A large file has many nodes: they are hidden from the garbage collector (`gc=False`), which is safe for a
tree.
"""

from typing import TypeAlias

import msgspec

from podium.text import quoted

Plain: TypeAlias = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


class Scalar(msgspec.Struct, gc=False):
    """One value. `text` is what was written; `value` is its value in YAML 1.2."""

    start: int
    end: int
    text: str
    value: None | bool | int | float | str


class Sequence(msgspec.Struct, gc=False):
    start: int
    end: int
    items: list["Node"]


class Entry(msgspec.Struct, gc=False):
    """One entry of a mapping; keys are always text, even `1`, `true` or `on`."""

    key: Scalar
    value: "Node"


class Mapping(msgspec.Struct, gc=False):
    start: int
    end: int
    entries: dict[str, Entry]


Node: TypeAlias = Scalar | Sequence | Mapping
# The path to a node: keys of mappings and indexes of lists.
NodePath: TypeAlias = tuple[str | int, ...]


def plain(node: Node) -> Plain:
    """The same data without positions. The reader limits the depth, so recursion is safe."""
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


def shift(node: Node, by: int) -> None:
    """Move a tree to another position. The reader limits the depth, so recursion is safe."""
    node.start += by
    node.end += by
    match node:
        case Sequence():
            for item in node.items:
                shift(item, by)
        case Mapping():
            for entry in node.entries.values():
                shift(entry.key, by)
                shift(entry.value, by)


def existing_part(node: Node, path: NodePath) -> NodePath:
    """The longest prefix of `path` that exists."""
    while path and find(node, path) is None:
        path = path[:-1]
    return path


def mark(node: Node) -> tuple[int, int]:
    """The range to mark when a message is about this node; for a collection, its start."""
    match node:
        case Scalar():
            return node.start, node.end
        case Mapping(entries=entries) if entries:
            first = next(iter(entries.values())).key
            return first.start, first.end
        case _:
            return node.start, node.start + 1


def describe(node: Node) -> str:
    """The kind of a node, in the words of a message."""
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
