"""What is allowed where in a file: shapes, as data.

The grammar of workflows is a table of shapes (`language/grammar.py`). The loader checks a tree against it
here, and the JSON Schema for editors is generated from the same table, so the two always agree.

`check` reports every problem and removes the invalid parts from the tree, so that later code only sees what
fits; mappings that lost something are remembered, because checks for missing keys would mislead there.
"""

import re
from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from podium.language.codes import Code
from podium.language.diagnostics import Report, did_you_mean
from podium.language.durations import EXAMPLES, seconds_of
from podium.language.tree import Mapping, Node, Scalar, Sequence, describe, mark
from podium.plan.canonical import MAX_INTEGER, WRITTEN_WITH_EXPONENT
from podium.text import quoted


class _Part(msgspec.Struct, frozen=True):
    """Structs, not dataclasses: they are created ten times as fast, and every command waits for that."""


class Text(_Part, frozen=True):
    """Text; with `template`, `${...}` in it is a reference. `also_numbers`: a number is read as the text that
    was written.
    """

    template: bool = False
    also_numbers: bool = False
    pattern: str | None = None
    # What the pattern accepts, in words: "a name like GITHUB_TOKEN".
    expected: str = "text"
    may_be_empty: bool = False


class Number(_Part, frozen=True, dict=True):
    least: float | None = None
    most: float | None = None
    above: float | None = None
    integer: bool = False
    # The unit of the number, for messages. Seconds may also be written as a duration, like 90s.
    unit: str = ""

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest value; by default what every reader of a plan can represent exactly."""
        return (
            self.least if self.least is not None else -MAX_INTEGER,
            self.most if self.most is not None else MAX_INTEGER,
        )


class Flag(_Part, frozen=True):
    """true or false."""


class Only(_Part, frozen=True):
    """Exactly one value, such as `end: true`."""

    value: bool


class Choice(_Part, frozen=True):
    words: tuple[str, ...]
    # Meaning of an unquoted number: `version: 2.0`.
    numbers: tuple[tuple[float, str], ...] = ()


class Anything(_Part, frozen=True):
    """Plain data of any form."""


class ListOf(_Part, frozen=True):
    item: "Shape"
    least: int = 0
    # A record with one key: an entry of this form is replaced by the entries of another file.
    included: str = ""


class MapOf(_Part, frozen=True):
    value: "Shape"
    key: str | None = None
    # What the key's pattern accepts, in words.
    expected: str = ""


class Either(_Part, frozen=True, dict=True):
    """Shapes that differ in kind (text, number, flag, list, mapping): the kind of what is written selects
    one.
    """

    shapes: tuple["Shape", ...]
    # What to do if any other kind is written.
    otherwise: str = ""

    @cached_property
    def by_kind(self) -> dict[str, "Shape"]:
        return {kind: shape for shape in reversed(self.shapes) for kind in _kinds(shape)}


class Field(_Part, frozen=True):
    shape: "Shape"
    doc: str
    required: bool = False


class Record(_Part, frozen=True, dict=True):
    """A mapping with known keys."""

    name: str
    doc: str
    fields: MappingOf[str, Field]
    # Exactly one key must be present: conditions, targets.
    one_key: bool = False
    # What to do with several keys where one is meant, or with a list of such mappings.
    several: str = ""
    # The key that is probably meant if a single value is written instead of the mapping.
    main: str = ""
    # Keys that people write from habit, and what is meant here.
    mistaken: MappingOf[str, str] = msgspec.field(default_factory=dict)

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(key for key, field in self.fields.items() if field.required)


class Named(_Part, frozen=True):
    """A record by its name, because steps contain steps."""

    name: str


Shape: TypeAlias = Text | Number | Flag | Only | Choice | Anything | ListOf | MapOf | Either | Record | Named

# The unit of times.
SECONDS: Final = "seconds"
# Keys that start with it are the user's own, everywhere.
OWN_KEY: Final = "x-"


class Checker:
    """Checks one tree, and remembers which mappings and lists lost something."""

    def __init__(
        self,
        records: MappingOf[str, Record],
        report: Report,
        include: Callable[[Scalar], list[Node] | None] = lambda _path: None,
    ) -> None:
        """`include`: returns the entries of another file, by its path; None if there is a problem, which it
        has reported.
        """
        self._records = records
        self._report = report
        self._include = include
        # What each mapping lost: keys that were removed, and known ones for which others were probably
        # written.
        self._lost: dict[int, set[str]] = {}

    def is_damaged(self, node: Mapping | Sequence) -> bool:
        return id(node) in self._lost

    def has_lost(self, node: Mapping, key: str) -> bool:
        """Whether something was written for this key but could not be used."""
        return key in self._lost.get(id(node), ())

    def inherit(self, node: Mapping, made: Mapping) -> None:
        """A mapping made from one that lost something has lost the same."""
        if id(node) in self._lost:
            self._lost[id(made)] = self._lost[id(node)]

    def check(self, node: Node, shape: Shape, name: str) -> bool:
        """Report what does not fit; False if the node as a whole cannot be used. Messages refer to it as
        `name`.
        """
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
                f"{_called(name)} is empty.",
                f"Write {shape.expected}, or remove the key.",
            )
        if shape.pattern is not None and not re.fullmatch(shape.pattern, node.value):
            return self._error(
                Code.INVALID_FORMAT,
                node,
                f"{_called(name)} cannot be {quoted(node.value)}.",
                f"Write {shape.expected}.",
            )
        return True

    def _check_number(self, node: Node, shape: Number, name: str) -> bool:
        if shape.unit == SECONDS and isinstance(node, Scalar) and isinstance(node.value, str):
            seconds = seconds_of(node.value)
            node.value = node.value if seconds is None else seconds
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._wrong_type(node, shape, name)
        if shape.integer and isinstance(value, float) and not value.is_integer():
            return self._error(
                Code.WRONG_TYPE,
                node,
                f"{_called(name)} is {describe(node)}, but must be a whole number.",
                "Write it without a fraction.",
            )
        least, most = shape.limits
        if value < least or (shape.above is not None and value <= shape.above):
            return self._error(
                Code.OUT_OF_BOUNDS,
                node,
                f"{_called(name)} is {value}, which is too small.",
                f"Use {_bounds(shape)}.",
            )
        if value > most:
            return self._error(
                Code.OUT_OF_BOUNDS,
                node,
                f"{_called(name)} is {value}, which is too large.",
                f"Use {most} or less.",
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
            f"{_called(name)} is {describe(node)}; it can only be {word}.",
            f"Write {word}, or remove the key.",
        )

    def _check_choice(self, node: Node, shape: Choice, name: str) -> bool:
        if not isinstance(node, Scalar):
            return self._wrong_type(node, shape, name)
        if shape.numbers and type(node.value) in (int, float):
            node.value = next((word for number, word in shape.numbers if number == node.value), node.text)
        if not isinstance(node.value, str):
            return self._wrong_type(node, shape, name)
        if node.value in shape.words:
            return True
        if self._report.is_full:
            self._report.count_only()
            return False
        return self._error(
            Code.UNKNOWN_VALUE,
            node,
            f"{_called(name)} is {quoted(node.value)}, which is not known.",
            _sentences(did_you_mean(node.value, shape.words), f"Write one of: {', '.join(shape.words)}."),
        )

    def _check_anything(self, node: Node, shape: Anything, name: str) -> bool:
        """Numbers that would change when stored in a plan are refused everywhere."""
        match node:
            case Scalar():
                if (
                    isinstance(node.value, int | float)
                    and MAX_INTEGER < abs(node.value) < WRITTEN_WITH_EXPONENT
                ):
                    return self._error(
                        Code.NUMBER_OUT_OF_RANGE,
                        node,
                        f"the number {node.text} in {_called(name)} is too large to be kept exactly.",
                        "Write it in quotes, as text.",
                    )
                return True
            case Sequence():
                return self._check_all(node.items, shape, name)
            case Mapping():
                return self._check_all([entry.value for entry in node.entries.values()], shape, name)

    def _check_all(self, nodes: list[Node], shape: Anything, name: str) -> bool:
        """Checks all of them, so that every problem is reported."""
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
                f"{_called(name)} is an empty list.",
                f"Write at least one item: {_describe_shape(shape.item, self._records)}.",
            )
        if shape.included and any(_is_included(item, shape) for item in node.items):
            node.items = [found for item in node.items for found in self._with_included(item, shape, node)]
        item_name = name + _ITEM
        check = _CHECKS[type(shape.item)]
        usable = [item for item in node.items if check(self, item, shape.item, item_name)]
        if len(usable) < len(node.items):
            node.items = usable
            self._lost[id(node)] = set()
        return len(usable) >= shape.least

    def _with_included(self, item: Node, shape: ListOf, into: Sequence) -> list[Node]:
        """The nodes of an entry: itself, or the entries of another file, which may include others in turn."""
        if not _is_included(item, shape):
            return [item]
        assert isinstance(item, Mapping)
        self._check_record(item, self._records[shape.included], "")
        entry = item.entries.get(shape.included)
        path = entry.value if entry is not None else None
        found = self._include(path) if isinstance(path, Scalar) and not self.is_damaged(item) else None
        if found is None:
            self._lost.setdefault(id(into), set())
            return []
        return [inner for one in found for inner in self._with_included(one, shape, into)]

    def _check_map(self, node: Node, shape: MapOf, name: str) -> bool:
        if not isinstance(node, Mapping):
            return self._wrong_type(node, shape, name)
        for key, entry in list(node.entries.items()):
            if shape.key is not None and not re.fullmatch(shape.key, key):
                self._error(
                    Code.INVALID_FORMAT,
                    entry.key,
                    f"{quoted(key)} cannot be a name in {_called(name)}.",
                    f"Write {shape.expected}.",
                )
            elif self.check(entry.value, shape.value, key):
                continue
            self._drop(node, key)
        return True

    def _check_either(self, node: Node, shape: Either, name: str) -> bool:
        meant = shape.by_kind.get(_kind(node))
        return self.check(node, meant, name) if meant is not None else self._wrong_type(node, shape, name)

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
        for key in misfits:
            self._drop(node, key)
        for key in shape.required:
            if key not in node.entries and not self.has_lost(node, key):
                self._lost.setdefault(id(node), set())
                self._report.error(
                    Code.MISSING_KEY,
                    *mark(node),
                    f"{shape.doc} needs {quoted(key)}.",
                    f"Add `{key}:` with {_describe_shape(fields[key].shape, self._records)}.",
                )
        if not shape.one_key:
            return True
        if any(not key.startswith(OWN_KEY) for key in misfits):
            return False
        if len(node.entries) != 1:
            self._not_one_key(node, shape)
            return False
        return True

    # --- reporting --------------------------------------------------------------------------------

    def _drop(self, node: Mapping, key: str) -> None:
        del node.entries[key]
        if not key.startswith(OWN_KEY):
            self._lost.setdefault(id(node), set()).add(key)

    def _unknown_key(self, node: Mapping, key: str, shape: Record) -> None:
        if self._report.is_full:
            # Only counted: no suggestion is needed.
            self._report.count_only()
            self._lost.setdefault(id(node), set()).update(shape.required)
            return
        at = node.entries[key].key
        hint = self._meant(node, key, shape)
        self._report.error(
            Code.UNKNOWN_KEY,
            at.start,
            at.end,
            f"{quoted(key)} is not a key of {shape.doc}.",
            hint or "Remove it; your own keys start with 'x-'.",
        )
        # What was probably meant is not also reported as missing.
        meant = {known for known in shape.fields if quoted(known) in hint or f"`{known}:`" in hint}
        if len(shape.fields) == 1:
            meant = set(shape.fields)
        self._lost.setdefault(id(node), set()).update(meant)

    def _meant(self, node: Mapping, key: str, shape: Record) -> str:
        """What to write instead of an unknown key."""
        if key in shape.mistaken:
            return shape.mistaken[key]
        for other in node.entries:
            known = shape.fields.get(other)
            if known is not None and key in _inner_keys(known.shape, self._records):
                return f"Move it into {quoted(other)}."
        near = did_you_mean(key, shape.fields)
        few = len(shape.fields) <= _FEW
        return _sentences(near, f"Keys of {shape.doc}: {', '.join(shape.fields)}." if few else "")

    def _not_one_key(self, node: Mapping, shape: Record) -> None:
        keys = list(node.entries)
        if keys:
            at: Node = node.entries[keys[1]].key
            self._error(
                Code.NOT_ONE_KEY,
                at,
                f"{shape.doc} has exactly one key, but this has {' and '.join(map(quoted, keys))}.",
                shape.several or "Keep one of them.",
            )
        else:
            self._error(
                Code.NOT_ONE_KEY,
                node,
                f"{shape.doc} has exactly one key, but this has none.",
                f"Write one of: {', '.join(shape.fields)}.",
            )

    def _wrong_type(self, node: Node, shape: Shape, name: str) -> bool:
        empty = isinstance(node, Scalar) and node.value is None
        message = f"{_called(name)} {'is empty' if empty else f'cannot be {describe(node)}'}."
        hint = (
            _requoted(node, shape)
            or _put_below(node, shape, self._records)
            or (isinstance(shape, Either) and shape.otherwise)
            or f"Write {_describe_shape(shape, self._records)}."
        )
        return self._error(Code.WRONG_TYPE, node, message, hint)

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


def _is_included(item: Node, shape: ListOf) -> bool:
    return isinstance(item, Mapping) and shape.included in item.entries


# In messages, the name of a list's item is made from the name of the list.
_ITEM: Final = "[]"
# The number of keys that can be listed in a hint.
_FEW: Final = 12


def _called(name: str) -> str:
    """How messages refer to a place: by its key; an item by its list's key; the whole document by its own
    name.
    """
    if not name:
        return "the file"
    return f"an item of {quoted(name.removesuffix(_ITEM))}" if name.endswith(_ITEM) else quoted(name)


def _sentences(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


_KINDS: Final = {
    Sequence: "list",
    Mapping: "mapping",
    bool: "flag",
    int: "number",
    float: "number",
    str: "text",
    type(None): "empty",
}


def _kind(node: Node) -> str:
    return _KINDS[type(node.value) if isinstance(node, Scalar) else type(node)]


def _kinds(shape: Shape) -> tuple[str, ...]:
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
            return tuple(shape.by_kind)
        case Anything():
            return ("text", "number", "flag", "list", "mapping", "empty")


def _inner_keys(shape: Shape, records: MappingOf[str, Record]) -> MappingOf[str, Field]:
    """The keys of the mapping that is allowed there."""
    match shape:
        case Named():
            return records[shape.name].fields
        case Either():
            return {key: field for one in shape.shapes for key, field in _inner_keys(one, records).items()}
        case _:
            return {}


def _requoted(node: Node, shape: Shape) -> str:
    """What to write if only the quotes or brackets are wrong; otherwise empty."""
    if not isinstance(node, Scalar) or node.value is None:
        return ""
    match shape:
        case Text() if not isinstance(node.value, str) and shape.pattern is None:
            return f'Write it in quotes: "{node.text}".'
        case Number() if isinstance(node.value, str) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", node.value):
            return f"Write it without quotes: {node.value}."
        case Flag() if node.value in ("true", "false"):
            return f"Write it without quotes: {node.value}."
        case Flag() if isinstance(node.value, str) and node.value.lower() in _FLAGS:
            return f"Write {_FLAGS[node.value.lower()]}."
        case ListOf(item=Text()) if isinstance(node.value, str) and re.fullmatch(r"[\w.-]{1,40}", node.value):
            return f"Write a list: [{node.value}]."
        case Either():
            return next((hint for one in shape.shapes if (hint := _requoted(node, one))), "")
        case _:
            return ""


def _put_below(node: Node, shape: Shape, records: MappingOf[str, Record]) -> str:
    """What to write if the value is right but has to be one level deeper; otherwise empty."""
    match shape:
        case Record():
            record = shape
        case Either(shapes=(*_, Named(name=name))):
            record = records[name]
        case _:
            return ""
    if isinstance(node, Sequence):
        return record.several
    if not isinstance(node, Scalar) or node.value is None or not record.main or len(node.text) > _SHORT:
        return ""
    others = ", ".join(key for key in record.fields if key != record.main) if record.one_key else ""
    there = f"; other keys there: {others}" if others else ""
    if "{{" in node.text:
        return f"Write `{record.main}:` below it, with values as ${{...}}{there}."
    return f"Write `{record.main}: {node.text}` below it{there}."


# Maximum length of a value that is repeated in a hint.
_SHORT: Final = 60
# Words that other YAML parsers read as true and false.
_FLAGS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}


def _describe_shape(shape: Shape, records: MappingOf[str, Record]) -> str:
    """What would be correct, in words."""
    match shape:
        case Text():
            return shape.expected
        case Number():
            what = "a whole number" if shape.integer else "a number"
            bounds = _bounds(shape)
            duration = f", or a duration like {EXAMPLES}" if shape.unit == SECONDS else ""
            return f"{what}{f' of {shape.unit}' if shape.unit else ''}{f', {bounds}' if bounds else ''}{duration}"
        case Flag():
            return "true or false"
        case Only():
            return str(shape.value).lower()
        case Choice():
            return f"one of: {', '.join(shape.words)}"
        case ListOf(item=Anything()):
            return "a list"
        case ListOf():
            return f"a list, each item {_describe_shape(shape.item, records)}"
        case MapOf(value=Named()):
            return f"a mapping of names, each {_describe_shape(shape.value, records)}"
        case MapOf():
            return "a mapping of names and values"
        case Record():
            return _describe_record(shape)
        case Named():
            return _describe_record(records[shape.name])
        case Either():
            return ", or ".join(_describe_shape(one, records) for one in shape.shapes)
        case Anything():
            return "a value"


def _describe_record(record: Record) -> str:
    if record.one_key:
        return f"one of: {', '.join(f'`{key}:`' for key in record.fields)}"
    # Some are described by what they are, others by their key, which the message has named.
    what = f"{record.doc}: " if not record.doc.startswith("'") else ""
    *others, last = [f"`{key}:`" for key in record.required] or [""]
    if last:
        return f"{what}a mapping with {', '.join(others)}{' and ' if others else ''}{last}"
    few = f" with some of: {', '.join(record.fields)}" if len(record.fields) <= _FEW else ""
    return f"{what}a mapping{few}"


def _bounds(shape: Number) -> str:
    if shape.least is not None and shape.most is not None:
        return f"{shape.least:g} to {shape.most:g}"
    if shape.above is not None:
        return f"more than {shape.above:g}"
    return f"{shape.least:g} or more" if shape.least is not None else ""
