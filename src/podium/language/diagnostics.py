"""Problems of a file, reported so that the reader can fix them without looking anything up.

    release.yaml:14:13: E204 step 'publish' needs 'biuld', which no step defines.
       14 |     needs: [biuld]
          |             ^^^^^
    Did you mean 'build'? Steps in this file: build, test.

A file is read to its end and all its problems are reported together. Everything that a message quotes comes
from the file and is shown with control characters escaped, so that it cannot affect the reader's terminal.
"""

from bisect import bisect_right
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from unicodedata import category, east_asian_width

import msgspec

from podium.language.codes import Code
from podium.language.source import Position, Source
from podium.text import quoted, visible

# Reading more problems than this does not help to fix a file; and a malicious file must not be able to fill
# the memory with messages about itself.
MAX_PROBLEMS = 100


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Diagnostic(msgspec.Struct, frozen=True):
    """One problem: what it is, where it is, and what would be right."""

    code: Code
    severity: Severity
    file: str
    line: int
    column: int
    end_column: int
    message: str
    hint: str
    excerpt: str

    def as_json(self) -> dict[str, str | int]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_column": self.end_column,
            "severity": self.severity.value,
            "code": self.code.value,
            "message": self.message,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        warning = "warning " if self.severity is Severity.WARNING else ""
        lines = [f"{self.file}:{self.line}:{self.column}: {warning}{self.code} {self.message}"]
        if self.excerpt:
            before, marked = (
                self.excerpt[: self.column - 1],
                self.excerpt[self.column - 1 : self.end_column - 1],
            )
            gutter = " " * max(0, 5 - len(str(self.line)))
            # Tabs are kept, so that the mark is below the text whatever the width of a tab.
            padding = "".join("\t" if c == "\t" else " " * _width(c) for c in before)
            lines.append(f"{gutter}{self.line} | {visible(self.excerpt)}")
            lines.append(
                f"{' ' * max(5, len(str(self.line)))} | {padding}{'^' * max(1, sum(map(_width, marked)))}"
            )
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class Report:
    """The problems found so far in one source, and in others that were spliced into it.

    Positions are consecutive: the text of another source starts where the last one ended.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._sources = [source]
        # The position at which each source starts.
        self._bases = [0]
        self._errors: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []
        self._reported = 0
        # A problem of `defaults` is found again in every step that uses them.
        self._listed: set[tuple[Code, int, str]] = set()

    def splice(self, source: Source) -> int:
        """Add another source; its positions start at the returned one."""
        self._bases.append(self._bases[-1] + len(self._sources[-1].text) + 1)
        self._sources.append(source)
        return self._bases[-1]

    def base(self, place: int) -> int:
        """The position at which the source containing `place` starts."""
        return self._bases[bisect_right(self._bases, place) - 1]

    def source_of(self, place: int) -> Source:
        return self._sources[bisect_right(self._bases, place) - 1]

    def position(self, place: int) -> Position:
        source = self.source_of(place)
        at = source.position(place - self.base(place))
        return at if source is self.source else Position(at.line, at.column, source.name)

    def error(self, code: Code, start: int, end: int, message: str, hint: str = "") -> None:
        self._add(code, Severity.ERROR, start, end, message, hint)

    def warning(self, code: Code, start: int, end: int, message: str, hint: str = "") -> None:
        self._add(code, Severity.WARNING, start, end, message, hint)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The problems in the order of the file. If there are too many, errors take precedence over warnings."""
        shown = (self._errors + self._warnings)[:MAX_PROBLEMS]
        files = {visible(source.name): number for number, source in enumerate(self._sources)}
        return sorted(shown, key=lambda found: (files[found.file], found.line, found.column))

    @property
    def omitted(self) -> int:
        """How many more problems were reported than are listed."""
        return self._reported - min(MAX_PROBLEMS, len(self._errors) + len(self._warnings))

    @property
    def has_errors(self) -> bool:
        return bool(self._errors)

    @property
    def is_full(self) -> bool:
        """Whether no further problem will be listed, so that expensive checks can be skipped."""
        return len(self._errors) >= MAX_PROBLEMS

    def count_only(self) -> None:
        """Count one more problem without listing it."""
        self._reported += 1

    def _add(self, code: Code, severity: Severity, start: int, end: int, message: str, hint: str) -> None:
        if (code, start, message) in self._listed:
            return
        self._reported += 1
        found = self._errors if severity is Severity.ERROR else self._warnings
        if len(found) >= MAX_PROBLEMS:
            return
        self._listed.add((code, start, message))
        source, at = self.source_of(start), self.position(start)
        excerpt = source.line(at.line)
        # If a place spans several lines, only the first is marked.
        end_column = min(at.column + max(1, end - start), max(len(excerpt), at.column) + 1)
        if len(excerpt) > 200:
            # A file that is one very long line must not be printed with each of its problems.
            excerpt = ""
        found.append(
            Diagnostic(
                code,
                severity,
                visible(source.name),
                at.line,
                at.column,
                end_column,
                visible(message),
                visible(hint),
                excerpt,
            )
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that suggests the nearest known word, or nothing if none is near."""
    written = {other.lower(): other for other in known}
    word = word.lower()
    candidates = list(written)
    if len(candidates) > _MAX_CANDIDATES:
        # Comparing with every word takes too long; a typing mistake rarely changes the first letter or the
        # length much.
        alike = (other for other in candidates if other[:1] == word[:1] and abs(len(other) - len(word)) <= 2)
        candidates = list(islice(alike, _MAX_CANDIDATES))
    from difflib import get_close_matches  # imported with the first mistake

    near = get_close_matches(word, candidates, n=1, cutoff=0.6)
    return f"Did you mean {quoted(written[near[0]])}?" if near else ""


_MAX_CANDIDATES = 500


def _width(character: str) -> int:
    if character == "\t":
        return 2  # A terminal moves to its next tab stop; a mark of one column would be easy to overlook.
    if (shown := visible(character)) != character:
        return len(shown)
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
