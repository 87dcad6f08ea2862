r"""Regular expressions for `matches(...)` and for JSON Schema, searched in linear time by RE2.

Python's `re` backtracks, and for a pattern such as `(a+)+$` the number of attempts doubles with every
character: a pattern, or the text it is applied to, could stall the engine. RE2 reads a text once. Features
that need memory of what was matched (`\1`, `(?=...)`) are not supported and are refused.

The dialect is RE2's, with two additions from Python: `$` also matches before a newline that ends the text,
because programs end their output with one, and `\Z` is the very end. `\d`, `\w`, `\s` and `\b` are ASCII
only; `\p{L}` is any letter.
"""

import re
from functools import lru_cache
from typing import Any, Final

from podium.patterns import lazy_pattern

MAX_PATTERN: Final = 1_000
# Limit for the compiled form of a pattern and for RE2's state.
_MAX_MEMORY: Final = 1024 * 1024
_HINTS: Final = {
    "missing )": r"Write ) where the group ends, or \( to mean the character itself.",
    "unexpected )": r"Remove it, or write \) to mean the character itself.",
    "missing ]": r"Write ] where the set ends, or \[ to mean the character itself.",
    "no argument for repetition operator": r"Write before it what is repeated, or a backslash to mean the character.",
    "bad repetition operator": "Put what is repeated into ( and ).",
    "invalid repetition size": "Repeat at most 1,000 times.",
    "trailing \\": r"Write \\ to mean a backslash.",
    "invalid character class range": "Write the smaller character first.",
    "invalid perl operator": "RE2 has no look-around and no conditions; write the pattern without them.",
    "invalid escape sequence": r"Write \\ to mean a backslash; RE2 has no back references.",
    "pattern too large": "Write a shorter pattern, or smaller numbers of repetitions.",
}
_ANY_HINT: Final = "Write it in the syntax of RE2."


class InvalidPattern(Exception):
    """An invalid pattern: what is wrong, as the second half of a sentence, and what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise InvalidPattern(f"it has more than {MAX_PATTERN:,} characters", "Write a shorter pattern.")
        self._compiled = _compiled(_in_re2(pattern))

    def found_in(self, text: str) -> bool:
        try:
            return self._compiled.search(text) is not None
        except UnicodeEncodeError:  # A lone surrogate, which UTF-8 cannot encode.
            return self._compiled.search(text.encode("utf-8", "replace").decode("utf-8")) is not None


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Pattern:
    return Pattern(pattern)


def _compiled(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]  # Few workflows have a pattern; the others do not pay for loading it.

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError:
        raise InvalidPattern("it contains an unpaired surrogate", "Remove it.") from None
    except re2.error as refused:
        raise _refusal(refused.args[0].decode("utf-8", "replace"), pattern) from None


def _refusal(reason: str, pattern: str) -> InvalidPattern:
    what, _, where = reason.partition(": ")
    hint = next((hint for start, hint in _HINTS.items() if what.startswith(start)), _ANY_HINT)
    # For an unclosed group RE2 quotes the whole pattern, which the message names anyway.
    return InvalidPattern(f"{what} in '{where}'" if where and where != pattern else what, hint)


# An escaped character, a set such as `[^]$]`, or something that is written differently in RE2.
_PART: Final = lazy_pattern(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\$", re.DOTALL)


def _in_re2(pattern: str) -> str:
    if re.search(r"\(\?[a-zA-Z]*m", pattern):
        return pattern  # There `$` is the end of a line.
    return _PART.sub(lambda part: {"$": r"(?:\n?\z)", r"\Z": r"\z"}.get(part[0], part[0]), pattern)
