"""Problems of a file, told so that the reader can mend them without another look-up.

    release.yaml:14:13: E204 step 'publish' needs 'biuld', which no step defines.
       14 |     needs: [biuld]
          |             ^^^^^
    Did you mean 'build'? Steps in this file: build, test.

A file is read to its end and all its problems are reported together. Whatever a message quotes comes from
the file and is shown with control characters spelled out, so that it cannot write to the reader's terminal.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from unicodedata import category, east_asian_width

import msgspec

from podium.language.codes import Code
from podium.language.source import Source
from podium.text import quoted, visible

# A file with more problems than this is not mended by reading about all of them; and a hostile file must
# not be able to fill the memory with complaints about itself.
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
            # Tabs stay tabs, so that the mark is below the text however wide a tab is shown.
            padding = "".join("\t" if c == "\t" else " " * _width(c) for c in before)
            lines.append(f"{gutter}{self.line} | {visible(self.excerpt)}")
            lines.append(
                f"{' ' * max(5, len(str(self.line)))} | {padding}{'^' * max(1, sum(map(_width, marked)))}"
            )
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class Report:
    """The problems found so far in one source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._errors: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []
        self._reported = 0

    def error(self, code: Code, start: int, end: int, message: str, hint: str = "") -> None:
        self._add(code, Severity.ERROR, start, end, message, hint)

    def warning(self, code: Code, start: int, end: int, message: str, hint: str = "") -> None:
        self._add(code, Severity.WARNING, start, end, message, hint)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What was found, in the order of the file. When there is too much, warnings make room for errors."""
        shown = (self._errors + self._warnings)[:MAX_PROBLEMS]
        return sorted(shown, key=lambda found: (found.line, found.column))

    @property
    def omitted(self) -> int:
        """How many more problems were reported than are listed."""
        return self._reported - min(MAX_PROBLEMS, len(self._errors) + len(self._warnings))

    @property
    def has_errors(self) -> bool:
        return bool(self._errors)

    @property
    def is_full(self) -> bool:
        """No further problem will be listed: whoever would have to think hard about one need not."""
        return len(self._errors) >= MAX_PROBLEMS

    def count_only(self) -> None:
        """One more problem that will not be listed."""
        self._reported += 1

    def _add(self, code: Code, severity: Severity, start: int, end: int, message: str, hint: str) -> None:
        self._reported += 1
        found = self._errors if severity is Severity.ERROR else self._warnings
        if len(found) >= MAX_PROBLEMS:
            return
        at = self.source.position(start)
        excerpt = self.source.line(at.line)
        # Of a place that spans several lines only the first is marked.
        end_column = min(at.column + max(1, end - start), max(len(excerpt), at.column) + 1)
        if len(excerpt) > 200:
            # A file of one endless line must not be printed with each of its problems.
            excerpt = ""
        found.append(
            Diagnostic(
                code,
                severity,
                visible(self.source.name),
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
        # Comparing with each takes too long; a slip of the pen seldom changes the first letter or the length much.
        alike = (other for other in candidates if other[:1] == word[:1] and abs(len(other) - len(word)) <= 2)
        candidates = list(islice(alike, _MAX_CANDIDATES))
    from difflib import get_close_matches  # loaded with the first mistake

    near = get_close_matches(word, candidates, n=1, cutoff=0.6)
    return f"Did you mean {quoted(written[near[0]])}?" if near else ""


_MAX_CANDIDATES = 500


def _width(character: str) -> int:
    if character == "\t":
        return 2  # A terminal moves to its next stop; a mark of one column would be easy to miss.
    if (shown := visible(character)) != character:
        return len(shown)
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
