"""A source text, and positions in it.

Positions are stored as character offsets, because a node of a large file can afford only one integer. Lines
and columns, which only messages need, are computed here, as editors count them: lines end at a line feed,
both count from 1.
"""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

import msgspec


class Position(msgspec.Struct, frozen=True):
    """A position for people; line and column count from 1."""

    line: int
    column: int
    # For a position in a file that was included.
    file: str = ""


class Source:
    """One text with its name, usually the path of its file."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line, without its line break."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].removesuffix("\r")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.text.split("\n")[:-1])]
