"""A text people wrote, and where things are in it.

Positions are kept as character offsets, because one integer is all that a node of a large file can afford.
Lines and columns, which only messages need, are worked out here, the way an editor counts them: lines end
at a line feed, both count from 1.
"""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

import msgspec


class Position(msgspec.Struct, frozen=True):
    """A place as people name it; line and column count from 1."""

    line: int
    column: int


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
