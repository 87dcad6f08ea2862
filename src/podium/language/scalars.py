"""Maps characters of a YAML value to their positions in the file.

Templates and expressions are parsed as values; their problems have to be shown in the original text, which
may contain quotes, escapes, indentation and folded lines. Only messages need this, so the scalar is then read
a second time, instead of keeping a position for every character of every file.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from podium.language.source import Source
from podium.language.tree import Scalar
from podium.patterns import lazy_pattern

# Start and end positions in the file.
_Span: TypeAlias = tuple[int, int]

# Blanks and line breaks; when folding, only the breaks count.
_SPACE: Final = lazy_pattern(r"[ \t\r\n]+")
_BREAK: Final = lazy_pattern(r"\r?\n")
# \xNN, \uNNNN, \UNNNNNNNN, or one character after the backslash.
_ESCAPE: Final = lazy_pattern(r"\\(?:x..|u....|U........|.)", re.DOTALL)
# A backslash at the end of a line joins it to the next one.
_JOINED: Final = lazy_pattern(r"\\\r?\n[ \t]*")


def span_in_file(source: Source, scalar: Scalar, start: int, end: int) -> _Span:
    """The position in the file of `value[start:end]`."""
    value = str(scalar.value)
    if value == source.text:
        return start, max(end, start + 1)  # a file that is read as one text, such as a prompt
    style = source.text[scalar.start]
    if style in "|>":
        places = list(_in_block(source.text, scalar, value))
    else:
        places = list(_in_flow(source.text, scalar, style))
    if start >= len(places):
        # After the last character, where the value ends.
        behind = places[-1][1] if places else scalar.start
        return behind, behind + 1
    return places[start][0], places[min(max(end, start + 1), len(places)) - 1][1]


def _in_flow(text: str, scalar: Scalar, style: str) -> Iterator[_Span]:
    """The positions of the characters of a plain or quoted scalar, as YAML reads it."""
    is_quoted = style in "\"'"
    at, end = scalar.start + is_quoted, scalar.end - is_quoted
    while at < end:
        if style == '"' and (joined := _JOINED.match(text, at, end)):
            at = joined.end()
            continue
        if space := _SPACE.match(text, at, end):
            yield from _folded(text, *space.span())
            at = space.end()
            continue
        after = at + 1
        if style == '"' and (escape := _ESCAPE.match(text, at, end)):
            after = escape.end()
        elif style == "'" and text.startswith("''", at):
            after = at + 2
        yield at, after
        at = after


def _folded(text: str, start: int, end: int) -> Iterator[_Span]:
    """Blanks within a line are literal; one line break is a space, several are as many breaks minus one."""
    breaks = [found.span() for found in _BREAK.finditer(text, start, end)]
    if not breaks:
        yield from ((at, at + 1) for at in range(start, end))
    else:
        yield from breaks[1:] or breaks


def _in_block(text: str, scalar: Scalar, value: str) -> Iterator[_Span]:
    """The positions in a block scalar: every non-blank character appears in the same order, once."""
    at = text.find("\n", scalar.start) + 1
    for character in value:
        space = _SPACE.match(text, at, scalar.end)
        if character in " \t\r\n":
            # Blanks may be indentation or folded; within a line they are literal.
            yield at, at + 1
            if space is not None and _BREAK.search(text, at, space.end()) is None:
                at += 1
        else:
            if space is not None:
                at = space.end()
            yield at, at + 1
            at += 1
