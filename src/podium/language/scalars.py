"""Where a character of a YAML value stands in the file.

Templates and expressions are parsed as values; their problems have to be shown in the text people wrote, where
quotes, escapes, indentation and folded lines stand in between. Both are walked side by side, which only messages
need: what is not white space in the value appears in the same order in the file.
"""

import re
from typing import Final

from podium.language.source import Source
from podium.language.tree import Scalar

# \xNN, \uNNNN, \UNNNNNNNN, or one character after the backslash (which may be a line break).
_ESCAPE: Final = re.compile(r"\\(x..|u....|U........|\r\n|.)", re.DOTALL)
_ESCAPED_BREAK: Final = re.compile(r"\\\r?\n[ \t]*")


def span_in_file(source: Source, scalar: Scalar, start: int, end: int) -> tuple[int, int]:
    """The place in the file of `value[start:end]`."""
    value = str(scalar.value)
    if value == source.text:
        return start, max(end, start + 1)  # a file that is read as one text, such as a prompt
    first = _offset(source.text, scalar, value, start)
    if end <= start + 1:
        return first, first + 1
    return first, _offset(source.text, scalar, value, end - 1) + 1


def _offset(text: str, scalar: Scalar, value: str, wanted: int) -> int:
    """Where `value[wanted]` stands; the end of the value if there is no such character."""
    quote = text[scalar.start]
    at = scalar.start
    if quote in "\"'":
        at += 1
    elif quote in "|>":
        at = text.find("\n", at) + 1
    place = 0
    while place < len(value):
        if value[place].isspace() and not _is_escape(text, at, quote):
            # White space may be folded: a run of it stands for a run of it.
            run = place
            while run < len(value) and value[run].isspace():
                run += 1
            if wanted < run and not _spans_lines(text, at):
                return at + (wanted - place)
            at = _after_space(text, at, scalar.end)
            if wanted < run:
                return at
            place = run
            continue
        at = _after_space(text, at, scalar.end) if text[at : at + 1].isspace() else at
        if quote == '"' and (skipped := _ESCAPED_BREAK.match(text, at)):
            at = skipped.end()
            continue
        if place == wanted:
            return at
        at += _length(text, at, quote)
        place += 1
    return min(at, scalar.end)


def _is_escape(text: str, at: int, quote: str) -> bool:
    return quote == '"' and text[at : at + 1] == "\\" and not _ESCAPED_BREAK.match(text, at)


def _length(text: str, at: int, quote: str) -> int:
    """How many characters of the file make the one character of the value that stands at `at`."""
    if quote == '"' and (escape := _ESCAPE.match(text, at)):
        return len(escape[0])
    return 2 if quote == "'" and text[at : at + 2] == "''" else 1


def _spans_lines(text: str, at: int) -> bool:
    while text[at : at + 1].isspace():
        if text[at] == "\n":
            return True
        at += 1
    return False


def _after_space(text: str, at: int, end: int) -> int:
    while at < end and text[at].isspace():
        at += 1
    return at
