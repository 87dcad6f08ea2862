"""YAML text to a tree with positions, refusing what cannot be trusted.

The grammar is PyYAML's C parser, read as a stream of events; what the events mean is decided here, because
PyYAML's own loader turns the key `on` into True, keeps the last of two equal keys, and crashes on deep
nesting. Scalars follow the core schema of YAML 1.2. Constructs that make a file mean something else than it
shows (anchors, aliases, merge keys, tags, several documents) are refused, each with its own code.

Everything is bounded before it is built: size, depth, numbers, and the count of complaints.
"""

import re
from dataclasses import dataclass
from typing import Final

import yaml
from yaml import CSafeLoader

from podium.language.codes import Code
from podium.language.diagnostics import Report, quoted
from podium.language.source import Source
from podium.language.tree import Entry, Mapping, Node, Scalar, Sequence

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Document:
    """What was read: the tree, if the text has one that can be relied on, and every problem on the way."""

    source: Source
    root: Node | None
    report: Report


def read_yaml(content: bytes, name: str, *, max_depth: int = MAX_DEPTH) -> Document:
    """Read one YAML document. Never raises for anything `content` holds."""
    if len(content) > MAX_BYTES:
        source = Source(name, "")
        report = Report(source)
        report.error(
            Code.FILE_TOO_LARGE,
            0,
            0,
            f"the file has more than {MAX_BYTES} bytes (8 MiB), the most that is read.",
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


# What the C parser takes; checked beforehand, because its own complaint has no usable position. It also takes U+0085,
# U+2028, U+2029 and a lone carriage return for line breaks, as no editor does: a comment could hide a key behind one.
_NOT_ALLOWED = re.compile(
    "\r(?!\n)|[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def _characters_are_allowed(source: Source, report: Report) -> bool:
    found = _NOT_ALLOWED.search(source.text)
    if found is None:
        return True
    if found[0] == "\0":
        report.error(Code.NUL_BYTE, found.start(), found.end(), "the file contains a NUL byte.", "Remove it.")
    else:
        report.error(
            Code.CONTROL_CHARACTER,
            found.start(),
            found.end(),
            f"the character U+{ord(found[0]):04X} may not stand in a file.",
            'Remove it, or write it as an escape inside double quotes, like "\\x1b".',
        )
    return False


@dataclass(slots=True)
class _OpenMapping:
    node: Mapping
    key: Scalar | None = None
    # Set while the value of a refused key is read: it is composed, checked, and dropped.
    key_refused: bool = False


class _Composer:
    """Builds the tree from events with a stack of its own; problems that can be stepped over are."""

    def __init__(self, source: Source, report: Report, max_depth: int) -> None:
        self._source = source
        self._report = report
        self._max_depth = max_depth
        self._open: list[_OpenMapping | Sequence] = []
        self._root: Node | None = None
        # False once something was refused whose meaning is unknown, so that no later check builds on it.
        self._reliable = True

    def compose(self) -> Node | None:
        documents = 0
        try:
            for event in yaml.parse(self._source.text, Loader=CSafeLoader):
                kind = type(event)
                if kind is yaml.ScalarEvent and event.anchor is None and event.tag is None:
                    # Two thirds of all events, and nothing to complain about.
                    self._place(self._scalar(event, event.start_mark.index, event.end_mark.index))
                elif kind is yaml.DocumentStartEvent:
                    documents += 1
                    if documents > 1:
                        self._refuse_second_document(event)
                        break
                elif not self._take(event):
                    return None
        except yaml.MarkedYAMLError as error:
            self._report_syntax(error)
            return None
        if self._root is None and self._reliable:
            self._report.error(Code.EMPTY_FILE, 0, 0, "the file has no content.", "Write a document into it.")
        return self._root if self._reliable else None

    def _take(self, event: yaml.Event) -> bool:
        """Take one event into the tree; False when reading on makes no sense."""
        start, end = _span(event)
        if isinstance(event, yaml.NodeEvent):
            self._refuse_anchor_and_tag(event, start)
        match event:
            case yaml.ScalarEvent():
                self._place(self._scalar(event, start, end))
            case yaml.CollectionStartEvent():
                if len(self._open) >= self._max_depth:
                    self._refuse_depth(start)
                    return False
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._open.append(
                    _OpenMapping(Mapping(start, end, {})) if is_mapping else Sequence(start, end, [])
                )
            case yaml.CollectionEndEvent():
                closed = self._open.pop()
                node = closed.node if isinstance(closed, _OpenMapping) else closed
                node.end = end
                self._place(node)
            case yaml.AliasEvent():
                self._refuse_alias(event, start, end)
                self._place(Scalar(start, end, f"*{event.anchor}", None))
        return True

    def _place(self, node: Node) -> None:
        """Put a finished node where it belongs: the root, an item, a key, or the value of a key."""
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif parent.key is None:
            self._take_key(parent, node)
        else:
            if not parent.key_refused:
                parent.node.entries[parent.key.text] = Entry(parent.key, node)
            parent.key = None

    def _take_key(self, parent: _OpenMapping, node: Node) -> None:
        if not isinstance(node, Scalar):
            self._reliable = False
            self._report.error(
                Code.KEY_NOT_TEXT,
                node.start,
                node.start + 1,
                "a key must be text, not a list or a mapping.",
                "Write the key as plain text before the colon.",
            )
            parent.key, parent.key_refused = Scalar(node.start, node.end, "", None), True
            return
        parent.key, parent.key_refused = node, False
        if node.text == "<<" and self._source.text[node.start : node.end] == "<<":
            self._reliable, parent.key_refused = False, True
            self._report.error(
                Code.MERGE_KEY,
                node.start,
                node.end,
                "the merge key '<<' is not allowed.",
                "Write the keys out where they are meant.",
            )
        elif node.text in parent.node.entries:
            parent.key_refused = True
            first = self._source.position(parent.node.entries[node.text].key.start)
            self._report.error(
                Code.DUPLICATE_KEY,
                node.start,
                node.end,
                f"the key {quoted(node.text)} stands twice in the same mapping.",
                f"The first one is in line {first.line}; keep one of them.",
            )

    def _scalar(self, event: yaml.ScalarEvent, start: int, end: int) -> Scalar:
        text: str = event.value
        if event.style:  # quoted or a block: always text
            return Scalar(start, end, text, text)
        resolved = _resolve(text)
        if resolved is _OUT_OF_RANGE:
            self._reliable = False
            self._report.error(
                Code.NUMBER_OUT_OF_RANGE,
                start,
                end,
                f"{quoted(text)} is no number that can be kept.",
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
        # Either may stand before the other, and both before the value.
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
            "a second document begins here; a file holds one.",
            "Move it into a file of its own.",
        )

    def _report_syntax(self, error: yaml.MarkedYAMLError) -> None:
        text = self._source.text
        at = error.problem_mark.index if error.problem_mark is not None else 0
        where = ""
        if error.context and error.context_mark is not None:
            began = error.context_mark.index
            where = f" {error.context} that began in line {self._source.position(min(began, len(text))).line}"
            if at >= len(text.rstrip()):
                # Something was never ended: where it began tells more than the end of the file.
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


_TAG: Final = re.compile(r"!(<[^>]*>|[^\s,\[\]{}]*)")


def _span(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


class _Refused:
    """A number that YAML allows and that would not survive being stored."""


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
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_BEGINS = frozenset("+-.0123456789")


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
