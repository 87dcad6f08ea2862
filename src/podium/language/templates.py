"""Text with `${...}` in it, and what may be between the braces.

    ${steps.Build Image.iterations[0].output:-none}      path and default
    ${steps["Build Image"].exit_code}                    the same step, quoted; any text can be a quoted part
    ${files[*]}                                          the items of a list, each an argument of its own
    $${HOME}                                             the text ${HOME}

The text is parsed once, here, into parts; the value of a reference is inserted between the parts later and is
never parsed again. So a value can hold quotes, spaces or `${` without becoming an argument or a reference.
`$name`, `$(` and `$$` mean nothing here: they are left for a shell that the user may call.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from podium.expressions.evaluate import PLAIN_PART
from podium.expressions.types import Reference, Template, Text
from podium.language.kinds import Kinds
from podium.patterns import lazy_pattern
from podium.text import quoted

# More parts than any real path has: a lookup walks them one by one.
MAX_PARTS: Final = 64
# The system's limit for an argument: a longer command could not be run.
MAX_COMMAND: Final = 128 * 1024

# Called with every reference and its position in the text, from `${` to `}`. The loader of a file checks the
# name, reports problems, and returns what is known about the value; and, if the plan is to have a path other
# than the written one (a step's id for its name), the reference to use instead.
OnReference: TypeAlias = Callable[[Reference, int, int], Kinds | tuple[Reference, Kinds]]


class ExpressionProblem(Exception):
    """The first problem of an expression or a template: what, where in the text, and what to write instead."""

    def __init__(self, start: int, end: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.start = start
        self.end = end
        self.message = message
        self.hint = hint


class Word(msgspec.Struct, frozen=True):
    """One word of a command, with its position. `bare`: nothing in it was quoted or escaped."""

    text: Text
    start: int
    end: int
    bare: bool


def parse_template(text: str, reference: OnReference) -> Text:
    if "${" not in text:
        return text
    parts = _Parts()
    at = 0
    while (found := text.find("${", at)) >= 0:
        if found > at and text[found - 1] == "$":
            parts.write(text[at : found - 1] + "${")
            at = found + 2
        else:
            parts.write(text[at:found])
            at = parts.refer(text, found, reference)
    parts.write(text[at:])
    found_spread = parts.spread
    if found_spread is not None and not parts.is_lone_reference:
        raise _spread_inside_text(*found_spread)
    return parts.text()


def command_words(text: str, reference: OnReference) -> list[Word]:
    """The words of a command line: quotes and backslashes have the same meaning as in a shell; nothing else
    is special.
    """
    if len(text) > MAX_COMMAND:
        raise ExpressionProblem(
            MAX_COMMAND,
            len(text),
            f"the command has {len(text):,} characters; the maximum is {MAX_COMMAND:,}.",
            "Put it into a script and run that.",
        )
    words: list[Word] = []
    at = _BLANKS.match(text).end()  # type: ignore[union-attr]  # it also matches nothing
    while at < len(text):
        word = _word(text, at, reference)
        words.append(word)
        at = _BLANKS.match(text, word.end).end()  # type: ignore[union-attr]
    return words


def parse_reference(text: str, start: int) -> tuple[Reference, int]:
    """The reference whose `${` is at `start`, and the offset just after its `}`."""
    if simple := _SIMPLE.match(text, start):
        return Reference(tuple(simple.group(1).split("."))), simple.end()
    if text.startswith("${{", start):
        raise double_braces(text, start)
    path: list[str | int] = []
    default: str | None = None
    spread = False
    at = start + 2
    # A name is expected at the start and after a dot; everywhere else a dot, a bracket or the end.
    name_due = True
    while True:
        if name_due:
            name, at = _plain_part(text, start, at)
            path.append(name)
            name_due = False
        elif text.startswith("}", at):
            break
        elif text.startswith(".", at):
            at += 1
            name_due = True
        elif text.startswith("[*]", at):
            spread = True
            at += 3
            if not text.startswith("}", at):
                raise _after_spread(text, start, at)
        elif text.startswith("[", at):
            part, at = _bracketed_part(text, start, at)
            path.append(part)
        elif text.startswith(":-", at):
            default, at = _default(text, start, at + 2)
        else:
            raise _unclosed(text, start) if at >= len(text) else _after_bracket(text, at)
        if len(path) > MAX_PARTS:
            raise ExpressionProblem(
                start,
                at,
                f"the reference {quoted(text[start:at])} has more than {MAX_PARTS} parts.",
                "Keep the value at a place that is easier to reach.",
            )
    return Reference(tuple(path), default, spread), at + 1


def double_braces(text: str, start: int) -> ExpressionProblem:
    """`${{ ... }}` or, in an expression, `{{ ... }}`."""
    # Imported with the first mistake.
    from podium.language.other_tools import DOUBLE_BRACES, instead_of

    found = DOUBLE_BRACES.match(text, start)
    end = text.find("}}", start) + 2
    shown = "${{ ... }}" if text.startswith("$", start) else "{{ ... }}"
    return ExpressionProblem(
        start,
        found.end() if found is not None else max(end, start + 3),
        f"a value is written with one pair of braces here, not as '{shown}'.",
        instead_of(found[1]) if found is not None else "Write ${...} with a name in it, like ${inputs.name}.",
    )


def resolved(found: Reference, start: int, end: int, reference: OnReference) -> tuple[Reference, Kinds]:
    """The reference to use, and what is known about its value."""
    answer = reference(found, start, end)
    used, kinds = (found, answer) if isinstance(answer, Kinds) else answer
    return used, kinds if used.default is None else kinds | Kinds.TEXT


def unescape(text: str, start: int) -> str:
    """The text between quotes, with its escapes resolved. `start` is its position, for messages."""
    return _ESCAPE.sub(lambda found: _unescaped(found, start), text) if "\\" in text else text


# --- references -------------------------------------------------------------------------------------

# Matches nearly all references; the general code below gives the same result.
_SIMPLE: Final = lazy_pattern(
    r"\$\{([A-Za-z_][A-Za-z0-9_ -]*+(?<! )(?:\.[A-Za-z_][A-Za-z0-9_ -]*+(?<! )){0,63}+)\}"
)
_QUOTED_PART: Final = lazy_pattern(
    r"""\[(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"|'([^'\\]*+(?:\\.[^'\\]*+)*+)')\]""", re.DOTALL
)
_INDEX: Final = lazy_pattern(r"\[(0|[1-9][0-9]{0,14})\]")
_ESCAPE: Final = lazy_pattern(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}


def _plain_part(text: str, start: int, at: int) -> tuple[str, int]:
    found = PLAIN_PART.match(text, at)
    if found is None:
        raise _no_name(text, start, at)
    name = found.group()
    if name[0] == " " or name[-1] == " ":
        raise ExpressionProblem(
            at,
            found.end(),
            f"{quoted(name)} starts or ends with a space.",
            f"Write {quoted(name.strip())}." if name.strip() else "Write a name.",
        )
    if name.endswith("$") and text.startswith("{", found.end()):
        raise _nested(found.end() - 1)
    if text[found.end() : found.end() + 1] in _NEVER_IN_NAMES:
        raise _not_in_a_name(text, found.end()) if found.end() < len(text) else _unclosed(text, start)
    return name, found.end()


_NEVER_IN_NAMES: Final = frozenset(["", "]", "{", '"', *map(chr, range(0x20)), "\x7f"])


def _bracketed_part(text: str, start: int, at: int) -> tuple[str | int, int]:
    if found := _INDEX.match(text, at):
        return int(found.group(1)), found.end()
    if found := _QUOTED_PART.match(text, at):
        group = 1 if found.group(1) is not None else 2
        return unescape(found.group(group), found.start(group)), found.end()
    raise _not_a_bracket(text, start, at)


def _default(text: str, start: int, at: int) -> tuple[str, int]:
    end = text.find("}", at)
    if end < 0:
        raise _unclosed(text, start)
    nested = text.find("${", at, end)
    if nested >= 0:
        raise _nested(nested)
    return text[at:end], end


def _unescaped(found: re.Match[str], start: int) -> str:
    escaped = found.group(1)
    if escaped not in _ESCAPES:
        raise ExpressionProblem(
            start + found.start(),
            start + found.end(),
            f"{quoted(found.group())} is not an escape sequence.",
            "Write a backslash twice to mean one; the others are \\n, \\t, \\r, \\' and \\\".",
        )
    return _ESCAPES[escaped]


def _no_name(text: str, start: int, at: int) -> ExpressionProblem:
    if at >= len(text):
        return _unclosed(text, start)
    if text.startswith("${", at):
        return _nested(at)
    if text.startswith("}", at) and at == start + 2:
        return ExpressionProblem(
            start, at + 1, "'${}' names nothing.", "Write what is meant, such as ${context.name}."
        )
    if text[at] in '.}[:"]':
        end = at + (1 if text[at] != ":" else 2)
        return ExpressionProblem(
            at,
            end,
            f"a name is missing before {quoted(text[at:end])}.",
            'A path looks like ${steps.Build.output}; a part in quotes like ${steps["Build"].output}.',
        )
    return _not_in_a_name(text, at)


def _not_in_a_name(text: str, at: int) -> ExpressionProblem:
    return ExpressionProblem(
        at,
        at + 1,
        f"{quoted(text[at])} cannot be part of a name.",
        'Put the part of the path in quotes: ${context["any text"]}.',
    )


def _nested(at: int) -> ExpressionProblem:
    return ExpressionProblem(
        at,
        at + 2,
        "a reference cannot contain another '${'.",
        "Close the first one with '}' before it, or refer to a single value.",
    )


def _unclosed(text: str, start: int) -> ExpressionProblem:
    return ExpressionProblem(
        start, len(text), "the '${' is never closed.", "Write '}' after the name, or '$${' for the text '${'."
    )


def _not_a_bracket(text: str, start: int, at: int) -> ExpressionProblem:
    end = text.find("]", at)
    if text[at + 1 : at + 2] in ('"', "'") and (end < 0 or text.find(text[at + 1], at + 2) < 0):
        return ExpressionProblem(
            at, len(text), "the quoted part of the path is never closed.", 'Write it as ["any text"].'
        )
    if end < 0:
        return _unclosed(text, start)
    inside = text[at + 1 : end].strip()
    if re.fullmatch(r"-[0-9]+", inside):
        message, hint = (
            f"the index {quoted(inside)} is negative.",
            "Items are counted from the front, from 0.",
        )
    elif re.fullmatch(r"[0-9]+", inside):
        message, hint = f"{quoted(text[at + 1 : end])} is not an index.", "Write a whole number, such as [0]."
    else:
        message = f"{quoted(text[at : end + 1])} is not part of a path."
        hint = 'Write [0] for an item, ["any text"] for a name, or [*] at the very end.'
    return ExpressionProblem(at, end + 1, message, hint)


def _after_spread(text: str, start: int, at: int) -> ExpressionProblem:
    if at >= len(text):
        return _unclosed(text, start)
    return ExpressionProblem(
        at,
        at + 1,
        f"{quoted(text[at])} follows '[*]'.",
        "'[*]' is the last part of a reference, and it has no default.",
    )


def _after_bracket(text: str, at: int) -> ExpressionProblem:
    return ExpressionProblem(
        at, at + 1, f"{quoted(text[at])} follows ']'.", "Write '.', '[', ':-' or '}' there."
    )


def _spread_inside_text(start: int, end: int) -> ExpressionProblem:
    return ExpressionProblem(
        start,
        end,
        "'[*]' makes several arguments, so nothing else is allowed beside it.",
        "Make it an element of its own in a list, or leave out '[*]' to write the list as JSON.",
    )


# --- parts ------------------------------------------------------------------------------------------


class _Parts:
    """A text while it is parsed: literal pieces and references, in order."""

    def __init__(self) -> None:
        self._done: list[str | Reference] = []
        self._literal: list[str] = []
        self.spread: tuple[int, int] | None = None

    def write(self, literal: str) -> None:
        if literal:
            self._literal.append(literal)

    def refer(self, text: str, start: int, reference: OnReference) -> int:
        found, end = parse_reference(text, start)
        found, _ = resolved(found, start, end, reference)
        if found.spread and self.spread is None:
            self.spread = (start, end)
        self._finish_literal()
        self._done.append(found)
        return end

    @property
    def is_lone_reference(self) -> bool:
        return len(self._done) == 1 and not self._literal

    def text(self) -> Text:
        self._finish_literal()
        if any(type(part) is Reference for part in self._done):
            return Template(tuple(self._done))
        return "".join(map(str, self._done))

    def _finish_literal(self) -> None:
        if self._literal:
            self._done.append("".join(self._literal))
            self._literal.clear()


# --- words of a command -----------------------------------------------------------------------------

_BLANKS: Final = lazy_pattern(r"(?:[ \t\r\n]++|\\\n)*+")
# Characters without a special meaning, outside quotes and inside double ones. A `$` is handled separately.
_PLAIN: Final = lazy_pattern(r"""[^ \t\r\n'"\\$]+""")
_PLAIN_IN_DOUBLE_QUOTES: Final = lazy_pattern(r'[^"\\$]+')
_PLAIN_IN_SINGLE_QUOTES: Final = lazy_pattern(r"[^'$]+")
# In double quotes a backslash escapes only these; otherwise the shell keeps it.
_ESCAPED_IN_DOUBLE_QUOTES: Final = '\\"$`'


def _word(text: str, start: int, reference: OnReference) -> Word:
    parts = _Parts()
    bare = True
    at = start
    while at < len(text) and text[at] not in " \t\r\n":
        character = text[at]
        if character == "'" or character == '"':
            bare = False
            at = _quoted_piece(text, at, character, parts, reference)
        elif character == "\\":
            bare = False
            at = _escaped_piece(text, at, parts)
        elif character == "$":
            at = _dollar(text, at, parts, reference)
        else:
            plain = _PLAIN.match(text, at)
            assert plain is not None  # every other character was handled above
            parts.write(plain.group())
            at = plain.end()
    if parts.spread is not None:
        raise ExpressionProblem(
            *parts.spread,
            "'[*]' would add words to a command that is written as one text.",
            "Write the command as a list: [program, '${files[*]}'].",
        )
    return Word(parts.text(), start, at, bare)


def _quoted_piece(text: str, start: int, quote: str, parts: _Parts, reference: OnReference) -> int:
    plain = _PLAIN_IN_SINGLE_QUOTES if quote == "'" else _PLAIN_IN_DOUBLE_QUOTES
    at = start + 1
    while at < len(text):
        if found := plain.match(text, at):
            parts.write(found.group())
            at = found.end()
        elif text[at] == quote:
            return at + 1
        elif text[at] == "$":
            at = _dollar(text, at, parts, reference)
        elif text[at + 1 : at + 2] == "\n":
            at += 2
        elif text[at + 1 : at + 2] and text[at + 1] in _ESCAPED_IN_DOUBLE_QUOTES:
            parts.write(text[at + 1])
            at += 2
        else:
            parts.write("\\")
            at += 1
    raise ExpressionProblem(
        start,
        len(text),
        f"the quote {quote} is never closed.",
        f"Write {quote} at the end of the word, or \\{quote} to mean the character itself.",
    )


def _escaped_piece(text: str, at: int, parts: _Parts) -> int:
    escaped = text[at + 1 : at + 2]
    if not escaped:
        raise ExpressionProblem(
            at, at + 1, "nothing follows the '\\' at the end.", "Write '\\\\' to mean a backslash."
        )
    # A line that ends in a backslash continues on the next, as in a shell.
    if escaped != "\n":
        parts.write(escaped)
    return at + 2


def _dollar(text: str, at: int, parts: _Parts, reference: OnReference) -> int:
    if text.startswith("${", at):
        return parts.refer(text, at, reference)
    if text.startswith("$${", at):
        parts.write("${")
        return at + 3
    parts.write("$")
    return at + 1
