"""What may stand where in a file: shapes, as data.

The grammar of workflows is a table of shapes (`language/grammar.py`). The loader checks a tree against it here, and
the JSON Schema for editors is made from the same table, so the two cannot drift apart.

`check` reports every problem and removes from the tree what has one, so that whoever reads the tree afterwards finds
only what fits; mappings that lost something are remembered, because a check on what is missing would mislead there.
"""

import re
from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from podium.core.canonical import LARGEST_INTEGER
from podium.language.codes import Code
from podium.language.diagnostics import Report, did_you_mean, quoted
from podium.language.tree import Mapping, Node, Scalar, Sequence, mark, told


@dataclass(frozen=True, slots=True)
class Text:
    """Text; with `template`, `${...}` in it is meant. `also_numbers`: a number stands for what was written."""

    template: bool = False
    also_numbers: bool = False
    pattern: str | None = None
    # What the pattern asks for, in words: "a name like GITHUB_TOKEN".
    told: str = "text"
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    least: float | None = None
    most: float | None = None
    above: float | None = None
    integer: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""


@dataclass(frozen=True, slots=True)
class Only:
    """One value and no other, such as `end: true`."""

    value: bool


@dataclass(frozen=True, slots=True)
class Choice:
    words: tuple[str, ...]
    # What an unquoted number stands for: `version: 2.0`.
    numbers: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Anything:
    """Plain data of any form."""


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Shape"
    least: int = 0


@dataclass(frozen=True, slots=True)
class MapOf:
    value: "Shape"
    key: str | None = None
    # What the key's pattern asks for.
    told: str = ""


@dataclass(frozen=True, slots=True)
class Either:
    """Shapes that differ in kind (text, number, flag, list, mapping): what is written decides which is meant."""

    shapes: tuple["Shape", ...]


@dataclass(frozen=True, slots=True)
class Field:
    shape: "Shape"
    doc: str
    required: bool = False


@dataclass(frozen=True)
class Record:
    """A mapping with known keys."""

    name: str
    doc: str
    fields: MappingOf[str, Field]
    # Exactly one key must be there: conditions, targets.
    one_key: bool = False
    # Keys people write from habit, and what is meant here.
    mistaken: MappingOf[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Named:
    """A record by its name: steps contain steps."""

    name: str


Shape: TypeAlias = Text | Number | Flag | Only | Choice | Anything | ListOf | MapOf | Either | Record | Named

# Keys beginning with it are the user's own, everywhere.
OWN_KEY: Final = "x-"


class Checker:
    """Checks one tree; `damaged` are the mappings that lost something."""

    def __init__(self, records: MappingOf[str, Record], report: Report) -> None:
        self._records = records
        self._report = report
        self._damaged: set[int] = set()

    def is_damaged(self, node: Mapping) -> bool:
        return id(node) in self._damaged

    def check(self, node: Node, shape: Shape, name: str) -> bool:
        """Report what does not fit; False if the node as a whole cannot be used. `name` is what messages call it."""
        return _CHECKS[type(shape)](self, node, shape, name)

    # --- scalars ----------------------------------------------------------------------------------

    def _check_text(self, node: Node, shape: Text, name: str) -> bool:
        if not isinstance(node, Scalar):
            return self._wrong_type(node, shape, name)
        if not isinstance(node.value, str):
            number = isinstance(node.value, int | float)
            if not (number and shape.also_numbers):
                return self._wrong_type(node, shape, name)
            node.value = node.text
        if not node.value and not shape.may_be_empty:
            return self._error(
                Code.WRONG_LENGTH,
                node,
                f"{quoted(name)} is empty.",
                f"Write {shape.told}, or remove the key.",
            )
        if shape.pattern is not None and not re.fullmatch(shape.pattern, node.value):
            return self._error(
                Code.INVALID_FORMAT, node, f"{quoted(name)} is {quoted(node.value)}.", f"Write {shape.told}."
            )
        return True

    def _check_number(self, node: Node, shape: Number, name: str) -> bool:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._wrong_type(node, shape, name)
        if shape.integer and isinstance(value, float) and not value.is_integer():
            return self._error(
                Code.WRONG_TYPE,
                node,
                f"{quoted(name)} is {told(node)}, but has to be a whole number.",
                "Write it without a fraction.",
            )
        if (shape.least is not None and value < shape.least) or (
            shape.above is not None and value <= shape.above
        ):
            wanted = (
                f"Use {shape.least:g} or more."
                if shape.least is not None
                else f"Use more than {shape.above:g}."
            )
            return self._error(
                Code.OUT_OF_BOUNDS, node, f"{quoted(name)} is {value}, which is too small.", wanted
            )
        most = shape.most if shape.most is not None else LARGEST_INTEGER
        if value > most:
            return self._error(
                Code.OUT_OF_BOUNDS,
                node,
                f"{quoted(name)} is {value}, which is too large.",
                f"Use {most:g} or less.",
            )
        return True

    def _check_flag(self, node: Node, shape: Flag, name: str) -> bool:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return True
        return self._wrong_type(node, shape, name)

    def _check_only(self, node: Node, shape: Only, name: str) -> bool:
        if isinstance(node, Scalar) and node.value is shape.value:
            return True
        word = str(shape.value).lower()
        return self._error(
            Code.UNKNOWN_VALUE,
            node,
            f"{quoted(name)} is {told(node)}; it can only be {word}.",
            f"Write `{name}: {word}`, or remove it.",
        )

    def _check_choice(self, node: Node, shape: Choice, name: str) -> bool:
        if not isinstance(node, Scalar):
            return self._wrong_type(node, shape, name)
        for number, word in shape.numbers:
            if type(node.value) in (int, float) and node.value == number:
                node.value = word
        if not isinstance(node.value, str):
            return self._wrong_type(node, shape, name)
        if node.value in shape.words:
            return True
        return self._error(
            Code.UNKNOWN_VALUE,
            node,
            f"{quoted(name)} is {quoted(node.value)}, which is not known.",
            _sentences(did_you_mean(node.value, shape.words), f"Known: {', '.join(shape.words)}."),
        )

    def _check_anything(self, node: Node, shape: Anything, name: str) -> bool:
        """Numbers that would not survive in a plan are refused wherever they stand."""
        match node:
            case Scalar():
                if isinstance(node.value, int) and abs(node.value) > LARGEST_INTEGER:
                    return self._error(
                        Code.NUMBER_OUT_OF_RANGE,
                        node,
                        f"the number {node.text} in {quoted(name)} is too large to be kept exactly.",
                        "Write it in quotes, as text.",
                    )
                return True
            case Sequence():
                return self._check_all(node.items, shape, name)
            case Mapping():
                return self._check_all([entry.value for entry in node.entries.values()], shape, name)

    def _check_all(self, nodes: list[Node], shape: Anything, name: str) -> bool:
        """All of them, so that every problem is told."""
        fits = True
        for one in nodes:
            fits &= self._check_anything(one, shape, name)
        return fits

    # --- collections ------------------------------------------------------------------------------

    def _check_list(self, node: Node, shape: ListOf, name: str) -> bool:
        if not isinstance(node, Sequence):
            return self._wrong_type(node, shape, name)
        if len(node.items) < shape.least:
            return self._error(
                Code.WRONG_LENGTH,
                node,
                f"{quoted(name)} is an empty list.",
                f"Write at least one item: {_told(shape.item, self._records)}.",
            )
        item_name = f"{name}[]"
        check = _CHECKS[type(shape.item)]
        usable = [item for item in node.items if check(self, item, shape.item, item_name)]
        if len(usable) < len(node.items):
            node.items = usable
            return len(usable) >= shape.least
        return True

    def _check_map(self, node: Node, shape: MapOf, name: str) -> bool:
        if not isinstance(node, Mapping):
            return self._wrong_type(node, shape, name)
        for key, entry in list(node.entries.items()):
            if shape.key is not None and not re.fullmatch(shape.key, key):
                self._error(
                    Code.INVALID_FORMAT,
                    entry.key,
                    f"{quoted(key)} in {quoted(name)} is no name.",
                    f"Write {shape.told}.",
                )
            elif self.check(entry.value, shape.value, key):
                continue
            self._drop(node, key)
        return True

    def _check_either(self, node: Node, shape: Either, name: str) -> bool:
        kind = _kind(node)
        for one in shape.shapes:
            if kind in _kinds(one, self._records):
                return self.check(node, one, name)
        return self._wrong_type(node, shape, name)

    def _check_named(self, node: Node, shape: Named, name: str) -> bool:
        return self._check_record(node, self._records[shape.name], name)

    def _check_record(self, node: Node, shape: Record, name: str) -> bool:
        if not isinstance(node, Mapping):
            return self._wrong_type(node, shape, name)
        fields = shape.fields
        misfits: list[str] = []
        for key, entry in node.entries.items():
            known = fields.get(key)
            if known is None or not _CHECKS[type(known.shape)](self, entry.value, known.shape, key):
                misfits.append(key)
        for key in misfits:
            if key not in fields and not key.startswith(OWN_KEY):
                self._unknown_key(node, key, shape)
            self._drop(node, key)
        for key, known in fields.items():
            if known.required and key not in node.entries and key not in misfits:
                self._damaged.add(id(node))
                self._report.error(
                    Code.MISSING_KEY,
                    *mark(node),
                    f"{shape.doc} needs {quoted(key)}.",
                    f"Add `{key}:` with {_told(known.shape, self._records)}.",
                )
        if shape.one_key and len(node.entries) != 1 and not misfits:
            self._not_one_key(node, shape)
            return False
        return not (shape.one_key and misfits)

    # --- telling ----------------------------------------------------------------------------------

    def _drop(self, node: Mapping, key: str) -> None:
        del node.entries[key]
        if not key.startswith(OWN_KEY):
            self._damaged.add(id(node))

    def _unknown_key(self, node: Mapping, key: str, shape: Record) -> None:
        at = node.entries[key].key
        hint = shape.mistaken.get(key) or _sentences(
            did_you_mean(key, shape.fields),
            f"Keys of {shape.doc}: {', '.join(shape.fields)}." if len(shape.fields) <= 12 else "",
        )
        self._report.error(
            Code.UNKNOWN_KEY,
            at.start,
            at.end,
            f"{quoted(key)} is no key of {shape.doc}.",
            hint or "Remove it; keys of your own begin with 'x-'.",
        )

    def _not_one_key(self, node: Mapping, shape: Record) -> None:
        found = ", ".join(map(quoted, node.entries)) or "none"
        self._report.error(
            Code.NOT_ONE_KEY,
            *mark(node),
            f"{shape.doc} has exactly one key, but this has {found}.",
            f"Write one of: {', '.join(shape.fields)}.",
        )

    def _wrong_type(self, node: Node, shape: Shape, name: str) -> bool:
        written = "is empty" if isinstance(node, Scalar) and node.value is None else f"is {told(node)}"
        return self._error(
            Code.WRONG_TYPE, node, f"{quoted(name)} {written}.", f"Write {_told(shape, self._records)}."
        )

    def _error(self, code: Code, node: Node, message: str, hint: str) -> bool:
        self._report.error(code, *mark(node), message, hint)
        return False


_CHECKS: Final[dict[type, Callable[[Checker, Node, Any, str], bool]]] = {
    Text: Checker._check_text,
    Number: Checker._check_number,
    Flag: Checker._check_flag,
    Only: Checker._check_only,
    Choice: Checker._check_choice,
    Anything: Checker._check_anything,
    ListOf: Checker._check_list,
    MapOf: Checker._check_map,
    Either: Checker._check_either,
    Record: Checker._check_record,
    Named: Checker._check_named,
}


def _sentences(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _kind(node: Node) -> str:
    match node:
        case Sequence():
            return "list"
        case Mapping():
            return "mapping"
        case Scalar(value=bool()):
            return "flag"
        case Scalar(value=int() | float()):
            return "number"
        case Scalar(value=str()):
            return "text"
        case _:
            return "empty"


def _kinds(shape: Shape, records: MappingOf[str, Record]) -> tuple[str, ...]:
    match shape:
        case Text():
            return ("text", "number", "flag") if shape.also_numbers else ("text",)
        case Number():
            return ("number",)
        case Flag() | Only():
            return ("flag",)
        case Choice():
            return ("text",)
        case ListOf():
            return ("list",)
        case MapOf() | Record() | Named():
            return ("mapping",)
        case Either():
            return tuple(kind for one in shape.shapes for kind in _kinds(one, records))
        case Anything():
            return ("text", "number", "flag", "list", "mapping", "empty")


def _told(shape: Shape, records: MappingOf[str, Record]) -> str:
    """What would be right, in words."""
    match shape:
        case Text():
            return shape.told
        case Number():
            what = "a whole number" if shape.integer else "a number"
            if shape.least is not None:
                return f"{what}, {shape.least:g} or more"
            return f"{what} greater than {shape.above:g}" if shape.above is not None else what
        case Flag():
            return "true or false"
        case Only():
            return str(shape.value).lower()
        case Choice():
            return f"one of: {', '.join(shape.words)}"
        case ListOf():
            return f"a list of {_told(shape.item, records).removeprefix('a ')}"
        case MapOf():
            return "a mapping of names and values"
        case Record():
            return (
                f"{shape.doc}, a mapping"
                if not shape.one_key
                else f"{shape.doc}: {' or '.join(shape.fields)}"
            )
        case Named():
            return _told(records[shape.name], records)
        case Either():
            return " or ".join(_told(one, records) for one in shape.shapes)
        case Anything():
            return "a value"
