"""YAML text to a tree with positions; refuses what is ambiguous or unsafe.

The parser is PyYAML's C parser, read as a stream of events. The events are interpreted here, because PyYAML's
own loader turns the key `on` into True, keeps the last of two equal keys, and crashes on deep nesting.
Scalars follow the core schema of YAML 1.2. Constructs that make a file mean something other than it shows
(anchors, aliases, merge keys, tags, several documents) are refused, each with its own code.

Everything is bounded before it is built: size, depth, numbers, and the number of problems.
"""

import re
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec
import yaml
from yaml import (
    CSafeLoader,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from podium.language.codes import Code
from podium.language.diagnostics import Report
from podium.language.source import Source
from podium.language.tree import Entry, Mapping, Node, Scalar, Sequence
from podium.patterns import lazy_pattern
from podium.text import quoted

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_DEPTH: Final = 64


class Document(msgspec.Struct, frozen=True):
    """The result of reading: the tree, if the text has a reliable one, and every problem that was found."""

    source: Source
    root: Node | None
    report: Report


def read_yaml(content: bytes, name: str, *, max_depth: int = MAX_DEPTH) -> Document:
    """Read one YAML document. Never raises, whatever `content` holds."""
    if len(content) > MAX_BYTES:
        source = Source(name, "")
        report = Report(source)
        report.error(
            Code.FILE_TOO_LARGE,
            0,
            0,
            f"the file has more than {MAX_BYTES} bytes (8 MiB), the maximum.",
            "Move large data into files of their own and refer to them.",
        )
        return Document(source, None, report)

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        readable = content[: error.start].decode("utf-8")
        source = Source(name, content.decode("utf-8", "replace"))
        report = Report(source)
        report.error(
            Code.INVALID_UTF8,
            len(readable),
            len(readable) + 1,
            f"byte 0x{content[error.start]:02x} at offset {error.start} is not valid UTF-8.",
            "Save the file as UTF-8.",
        )
        return Document(source, None, report)

    source = Source(name, text.removeprefix("\ufeff"))
    report = Report(source)
    if not _characters_are_allowed(source, report):
        return Document(source, None, report)
    return Document(source, _Composer(source, report, max_depth).compose(), report)


# What the C parser accepts; checked beforehand, because its own message has no usable position. The parser
# also treats U+0085, U+2028, U+2029 and a lone carriage return as line breaks, unlike any editor: a comment
# could hide a key behind one.
_NOT_ALLOWED = (
    "\r(?!\n)|[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


# Nearly all files consist of these characters only.
_ORDINARY = bytes([*b"\t\n", *range(0x20, 0x7F)])


def _characters_are_allowed(source: Source, report: Report) -> bool:
    if not source.text.encode().translate(None, _ORDINARY):
        return True
    found = re.search(_NOT_ALLOWED, source.text)
    if found is None:
        return True
    if found[0] == "\0":
        report.error(Code.NUL_BYTE, found.start(), found.end(), "the file contains a NUL byte.", "Remove it.")
    else:
        report.error(
            Code.CONTROL_CHARACTER,
            found.start(),
            found.end(),
            f"the character U+{ord(found[0]):04X} is not allowed in a file.",
            'Remove it, or write it as an escape inside double quotes, like "\\x1b".',
        )
    return False


# An open collection: whether it is a mapping (else a list), its position, and its items; in a mapping keys
# and values alternate.
_Open: TypeAlias = tuple[bool, int, list[Node]]


class _Composer:
    """Builds the tree from events with a stack of its own; continues after problems where possible."""

    def __init__(self, source: Source, report: Report, max_depth: int) -> None:
        self._source = source
        self._report = report
        self._max_depth = max_depth
        self._open: list[_Open] = [(False, 0, [])]
        # False once something was refused whose meaning is unknown, so that no later check relies on it.
        self._reliable = True

    def compose(self) -> Node | None:
        _, _, roots = self._open[0]
        if not self._take_all():
            # Report what is known about the mappings that never ended.
            while len(self._open) > 1:
                self._close(len(self._source.text))
            return None
        if not roots and self._reliable:
            self._report.error(Code.EMPTY_FILE, 0, 0, "the file has no content.", "Write a document into it.")
        return roots[0] if roots and self._reliable else None

    def _take_all(self) -> bool:
        """Take the events of the first document; False if reading further makes no sense."""
        documents = 0
        opened, most = self._open, self._max_depth
        # Items of the innermost open list or mapping.
        items = opened[0][2]
        try:
            # None follows the last one.
            event: Any
            for event in iter(CSafeLoader(self._source.text).get_event, None):
                # Nearly all events are of the first three kinds and need no further checks.
                kind = type(event)
                if kind is ScalarEvent and event.anchor is None and event.tag is None:
                    text: str = event.value
                    start, end = event.start_mark.index, event.end_mark.index
                    if event.style or text[:1] not in _MEANS_MORE:
                        items.append(Scalar(start, end, text, text))
                    else:
                        items.append(self._plain(text, start, end))
                elif kind in _ENDS:
                    self._close(event.end_mark.index)
                    items = opened[-1][2]
                elif kind in _BEGINS and event.anchor is None and event.tag is None and len(opened) <= most:
                    items = []
                    opened.append((kind is MappingStartEvent, event.start_mark.index, items))
                elif kind is yaml.DocumentStartEvent:
                    documents += 1
                    if documents > 1:
                        self._refuse_second_document(event)
                        break
                elif isinstance(event, yaml.NodeEvent):
                    if not self._take(event):
                        return False
                    items = opened[-1][2]
        except yaml.MarkedYAMLError as error:
            self._report_syntax(error)
            return False
        return True

    def _take(self, event: yaml.NodeEvent) -> bool:
        """Handle an event that is refused for some reason; False if reading further makes no sense."""
        start, end = _span(event)
        self._refuse_anchor_and_tag(event, start)
        _, _, items = self._open[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) > self._max_depth:
                self._refuse_depth(start)
                return False
            self._open.append((type(event) is MappingStartEvent, start, []))
        elif isinstance(event, yaml.AliasEvent):
            self._refuse_alias(event, start, end)
            items.append(Scalar(start, end, f"*{event.anchor}", None))
        else:
            assert isinstance(event, ScalarEvent)
            text = event.value
            items.append(Scalar(start, end, text, text) if event.style else self._plain(text, start, end))
        return True

    def _close(self, end: int) -> None:
        """End the innermost list or mapping, and add it to the one around it."""
        is_mapping, start, items = self._open.pop()
        node = Mapping(start, end, self._entries(items)) if is_mapping else Sequence(start, end, items)
        self._open[-1][2].append(node)

    def _entries(self, items: list[Node]) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        # The last key has no value if the text ended there.
        for key, value in zip(items[::2], items[1::2], strict=False):
            if type(key) is Scalar and (text := key.text) not in entries and text != "<<":
                entries[text] = Entry(key, value)
            elif self._may_be_key(key, entries):
                entries[key.text] = Entry(key, value)
        return entries

    def _may_be_key(self, key: Node, entries: dict[str, Entry]) -> TypeGuard[Scalar]:
        if not isinstance(key, Scalar):
            self._reliable = False
            self._report.error(
                Code.KEY_NOT_TEXT,
                key.start,
                key.start + 1,
                "a key must be text, not a list or a mapping.",
                "Write the key as plain text before the colon.",
            )
            return False
        if key.text == "<<" and self._source.text[key.start : key.end] == "<<":
            self._reliable = False
            self._report.error(
                Code.MERGE_KEY,
                key.start,
                key.end,
                "the merge key '<<' is not allowed.",
                "Write the keys out where they are meant.",
            )
            return False
        if key.text in entries:
            first = self._source.position(entries[key.text].key.start)
            self._report.error(
                Code.DUPLICATE_KEY,
                key.start,
                key.end,
                f"the key {quoted(key.text)} appears twice in the same mapping.",
                f"The first one is in line {first.line}; keep one of them.",
            )
            return False
        return True

    def _plain(self, text: str, start: int, end: int) -> Scalar:
        """An unquoted scalar, whose type depends on its text."""
        resolved = _resolve(text)
        if resolved is _OUT_OF_RANGE:
            self._reliable = False
            self._report.error(
                Code.NUMBER_OUT_OF_RANGE,
                start,
                end,
                f"{quoted(text)} is not a number that can be stored.",
                f"Whole numbers go from {-(2**63)} to {2**63 - 1}, others are finite; quote it if text is meant.",
            )
            return Scalar(start, end, text, None)
        assert not isinstance(resolved, _Refused)
        return Scalar(start, end, text, resolved)

    def _refuse_alias(self, event: yaml.AliasEvent, start: int, end: int) -> None:
        self._reliable = False
        self._report.error(
            Code.ALIAS,
            start,
            end,
            f"the alias '*{event.anchor}' is not allowed.",
            "Write the value out where it is meant.",
        )

    def _refuse_depth(self, start: int) -> None:
        self._report.error(
            Code.NESTED_TOO_DEEP,
            start,
            start + 1,
            f"lists and mappings are nested more than {self._max_depth} deep here.",
            "Flatten the document.",
        )

    def _refuse_anchor_and_tag(self, event: yaml.NodeEvent, start: int) -> None:
        # They may come in either order, both before the value.
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            at = self._source.text.find(f"&{event.anchor}", start)
            self._report.error(
                Code.ANCHOR,
                at,
                at + 1 + len(event.anchor),
                f"the anchor '&{event.anchor}' is not allowed.",
                "Write the value out where it is meant.",
            )
        if getattr(event, "tag", None) is not None:
            written = _TAG.search(self._source.text, start)
            assert written is not None
            self._report.error(
                Code.TAG,
                *written.span(),
                f"the tag {quoted(written[0])} is not allowed.",
                "Remove it; quote a value to make it text.",
            )

    def _refuse_second_document(self, event: yaml.Event) -> None:
        start, _ = _span(event)
        self._report.error(
            Code.SECOND_DOCUMENT,
            start,
            start + 3,
            "a second document starts here; a file contains one.",
            "Move it into a file of its own.",
        )

    def _report_syntax(self, error: yaml.MarkedYAMLError) -> None:
        text = self._source.text
        at = error.problem_mark.index if error.problem_mark is not None else 0
        where = ""
        if error.context and error.context_mark is not None:
            began = error.context_mark.index
            where = (
                f" {error.context} that started in line {self._source.position(min(began, len(text))).line}"
            )
            if at >= len(text.rstrip()):
                # Something was not closed: its start is more useful than the end of the file.
                at = began
        at = min(at, len(text))
        line = self._source.line(self._source.position(at).line)
        indented_by_tab = "\t" in line[: len(line) - len(line.lstrip())]
        self._report.error(
            Code.INVALID_YAML,
            at,
            at + 1,
            f"this is not valid YAML: {error.problem or 'it cannot be parsed'}{where}.",
            "Indent with spaces: YAML does not allow tabs there."
            if indented_by_tab
            else "Look for a missing quote, bracket, colon or space at or before this place.",
        )


_BEGINS: Final = frozenset({MappingStartEvent, SequenceStartEvent})
_ENDS: Final = frozenset({MappingEndEvent, SequenceEndEvent})
_TAG: Final = lazy_pattern(r"!(<[^>]*>|[^\s,\[\]{}]*)")


def _span(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


class _Refused:
    """A number that YAML allows but that would change when stored."""


_OUT_OF_RANGE: Final = _Refused()
_WORDS: Final[dict[str, None | bool]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER = lazy_pattern(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = lazy_pattern(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = lazy_pattern(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_BEGINS = frozenset("+-.0123456789")
# First characters of plain scalars that may be something other than text.
_MEANS_MORE = _NUMBER_BEGINS | {word[:1] for word in _WORDS}


def _resolve(text: str) -> None | bool | int | float | str | _Refused:
    """The value of a plain scalar by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_BEGINS:
        return text
    if _INTEGER.fullmatch(text):
        # 64 bits need at most 20 decimal or 22 octal digits; longer ones are not even converted.
        number = int(text, 0 if text[:2] in ("0o", "0x") else 10) if len(text) <= 24 else 2**64
        return number if -(2**63) <= number < 2**63 else _OUT_OF_RANGE
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if abs(value) != float("inf") else _OUT_OF_RANGE
    return _OUT_OF_RANGE if _NOT_FINITE.fullmatch(text) else text
