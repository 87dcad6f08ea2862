"""`shell:`: a script for `sh`, into which values are never inserted.

    shell: cp "${steps.Build.output}" "$HOME/${context.name}"

Each `${...}` of a Podium namespace becomes an environment variable of the step, and the script refers to that
variable. So a value with quotes, `;` or `$(...)` stays a value. Any other `${...}` is the shell's own.

Where the shell does not expand variables (single quotes, a quoted here-document, after a backslash) a value
cannot be used: the script is left unchanged there. The scan for these places exists because most authors of
such a reference expect a value, and are warned.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from podium.expressions.types import Reference, Template, Text
from podium.language.codes import Code
from podium.language.diagnostics import Severity
from podium.language.references import Names, Place
from podium.language.templates import (
    MAX_COMMAND,
    ExpressionProblem,
    OnReference,
    parse_reference,
    resolved,
)
from podium.language.tree import Node, Scalar
from podium.language.values import warn_of_other_templates
from podium.plan.scripts import VARIABLE

_NAME: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


class LiteralPlace(NamedTuple):
    """A part of a script in which the shell expands nothing, and why."""

    start: int
    end: int
    why: str


class Script(NamedTuple):
    text: str
    # The variables that it refers to.
    env: dict[str, Text]
    # References that the shell will not expand.
    literal: tuple[LiteralPlace, ...] = ()


def script_of(node: Node, names: Names) -> Script:
    """Only the step sees the variables, so they may contain secrets."""
    assert isinstance(node, Scalar)
    if "{{" in node.text:
        warn_of_other_templates(node, names)
    try:
        script = parse_script(str(node.value), names.is_namespace, names.reader(node, Place.PRIVATE))
    except ExpressionProblem as problem:
        names.problems.inside(
            Code.INVALID_TEMPLATE, node, problem.start, problem.end, problem.message, problem.hint
        )
        return Script("", {})
    for place in script.literal:
        names.problems.inside(
            Code.SHELL_SYNTAX,
            node,
            place.start,
            place.end,
            f"the shell does not expand '${{...}}' {place.why}; it stays as it is written.",
            "Write it in double quotes, or '$${' for the text '${'.",
            Severity.WARNING,
        )
    return script


def parse_script(text: str, is_namespace: Callable[[str], bool], reference: OnReference) -> Script:
    """`is_namespace`: whether a name is one that `${...}` refers to."""
    if len(text) > MAX_COMMAND:
        raise ExpressionProblem(
            MAX_COMMAND,
            len(text),
            f"the script has {len(text):,} characters; the maximum is {MAX_COMMAND:,}.",
            "Put it into a file and run that.",
        )
    variables: dict[Reference, str] = {}
    pieces: list[str] = []
    unexpanded: list[LiteralPlace] = []
    at = 0
    literal = literal_places(text)
    while (found := text.find("${", at)) >= 0:
        if found > at and text[found - 1] == "$":
            pieces.append(text[at : found - 1] + "${")
            at = found + 2
        elif (why := _why_literal(found, literal)) is not None:
            unexpanded += _unexpanded(text, found, why, is_namespace)
            pieces.append(text[at : found + 2])
            at = found + 2
        elif not _is_reference(text, found, is_namespace):
            pieces.append(text[at : found + 2])
            at = found + 2
        else:
            used, end = _reference_at(text, found, reference)
            name = variables.setdefault(used, VARIABLE.format(len(variables) + 1))
            pieces.append(f"{text[at:found]}${{{name}}}")
            at = end
    env: dict[str, Text] = {name: Template((used,)) for used, name in variables.items()}
    return Script("".join(pieces) + text[at:], env, tuple(unexpanded))


def _is_reference(text: str, at: int, is_namespace: Callable[[str], bool]) -> bool:
    if text.startswith("${{", at):
        return True  # not valid in any shell: reported as in other texts
    found = _NAME.match(text, at)
    # No shell allows a `.` there: a misspelt namespace, reported as in other texts.
    return found is not None and (is_namespace(found.group(1)) or text.startswith(".", found.end()))


def _reference_at(text: str, at: int, reference: OnReference) -> tuple[Reference, int]:
    found, end = parse_reference(text, at)
    used, _ = resolved(found, at, end, reference)
    if used.spread:
        raise ExpressionProblem(
            at,
            end,
            "'[*]' cannot be used in a script: a variable holds one value.",
            "Use `command:` with a list, or leave out '[*]' to get the list as JSON.",
        )
    return used, end


def _why_literal(at: int, literal: list[LiteralPlace]) -> str | None:
    """Why the shell expands nothing at this place; None if it does."""
    before = bisect_right(literal, at, key=lambda place: place.start) - 1
    return literal[before].why if before >= 0 and at < literal[before].end else None


def _unexpanded(text: str, at: int, why: str, is_namespace: Callable[[str], bool]) -> Iterator[LiteralPlace]:
    """The reference there, if it is one. Texts of other languages also contain `${user.name}`."""
    found = _NAME.match(text, at)
    if found is not None and is_namespace(found.group(1)):
        end = text.find("}", at)
        yield LiteralPlace(at, end + 1 if end >= 0 else found.end(), why)


# --- where a shell expands nothing ------------------------------------------------------------------

_SINGLE_QUOTES: Final = "in single quotes"
_BACKSLASH: Final = "after a backslash"
_HERE_DOCUMENT: Final = "in a here-document whose delimiter is quoted"
_COMMENT: Final = re.compile(r"#[^\n]*")
_STARTS_A_WORD: Final = frozenset(" \t\n;|&()")
_HERE: Final = re.compile(r"""(?<!<)<<(-?)[ \t]*(['"\\]?)([A-Za-z0-9_]+)['"]?""")
_SIMPLE_TEXT: Final = re.compile(r"""[^\\'"$()#<\n]+""")


def literal_places(text: str) -> list[LiteralPlace]:
    """The places in the order of the text."""
    return list(_Scanner(text).places())


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # Open constructs: `"`, or `(` for a `$(` or a subshell, inside which quoting starts afresh.
        self._open: list[str] = []
        # Here-documents that start on the next line: indented, quoted, delimiter.
        self._due: list[tuple[bool, bool, str]] = []

    def places(self) -> Iterator[LiteralPlace]:
        text = self._text
        while self._at < len(text):
            in_double_quotes = self._open[-1:] == ['"']
            start, character = self._at, text[self._at]
            if character == "\\":
                self._at += 2
                yield LiteralPlace(start, self._at, _BACKSLASH)
            elif character == '"':
                self._close('"') if in_double_quotes else self._open.append('"')
                self._at += 1
            elif character == "(" and (not in_double_quotes or text[start - 1 : start] == "$"):
                self._open.append("(")
                self._at += 1
            elif in_double_quotes:
                self._at += 1
            else:
                yield from self._unquoted(start, character)

    def _unquoted(self, start: int, character: str) -> Iterator[LiteralPlace]:
        text = self._text
        self._at += 1
        if character == "'":
            end = text.find("'", start + 1)
            self._at = len(text) if end < 0 else end + 1
            yield LiteralPlace(start, self._at, _SINGLE_QUOTES)
        elif character == ")":
            self._close("(")
        elif character == "#" and (start == 0 or text[start - 1] in _STARTS_A_WORD):
            found = _COMMENT.match(text, start)
            self._at = found.end() if found is not None else self._at
        elif character == "<" and (found := _HERE.match(text, start)):
            self._due.append((found.group(1) == "-", bool(found.group(2)), found.group(3)))
            self._at = found.end()
        elif character == "\n" and self._due:
            yield from self._here_documents()
        elif plain := _SIMPLE_TEXT.match(text, start):
            self._at = plain.end()

    def _here_documents(self) -> Iterator[LiteralPlace]:
        for is_indented, is_quoted, delimiter in self._due:
            start = self._at
            while self._at < len(self._text):
                end = self._text.find("\n", self._at) + 1 or len(self._text) + 1
                line = self._text[self._at : end - 1]
                self._at = end
                if (line.lstrip("\t") if is_indented else line) == delimiter:
                    break
            if is_quoted:
                yield LiteralPlace(start, self._at, _HERE_DOCUMENT)
        # The newline before the next command belonged to the delimiter.
        self._due.clear()

    def _close(self, opened: str) -> None:
        if self._open[-1:] == [opened]:
            self._open.pop()
