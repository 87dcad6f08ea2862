"""Text made safe to show: control characters are escaped, credentials masked, and every error has a reason.

    postgresql://podium:***@db/prod        the password; the user name helps to find the mistake
    https://***@example.com/               all of it: tokens are commonly given as the user name
    https://example.com/?access_token=***  parameters whose name says that they hold a credential

Applied wherever an address, or an error text that may quote one, reaches a person or a log.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final
from unicodedata import category, combining, east_asian_width

_MASK: Final = "***"
# Control and format characters (which change the direction of text), surrogates, line and paragraph
# separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# The user information of an address ends at its last `@`. An unencoded password may contain a `/`: outside of
# HTTP, where paths with an `@` are common, everything up to the last `@` of the word is treated as user
# information.
_HTTP: Final = r"\bhttps?://(?P<secret>[^\s/?#]+)@"
_OTHER: Final = r"\b(?!https?:)[a-z][a-z0-9+.-]*://[^\s:/@]*:(?P<secret>\S+)@"
_PARAMETER: Final = (
    r"[?&][\w.-]*(?:password|passwd|token|secret|api_?key|signature)[\w.-]*=(?P<secret>[^\s&#\"']+)"
)


def visible(text: str) -> str:
    """The text with every character escaped that would control a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c == "\t" or category(c) not in _UNSEEN else _escaped(c) for c in text)


def width_of(text: str) -> int:
    """How many columns it takes at a terminal."""
    return len(text) if text.isascii() else sum(map(columns_of, text))


def columns_of(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    """Followed by spaces up to this number of columns."""
    return text + " " * (width - width_of(text))


def quoted(value: str) -> str:
    """A value in a message: in quotes, and truncated when it is long."""
    return f"'{shortened(value)}'"


def shortened(value: str, most: int = 60) -> str:
    """Truncate a long text after masking its credentials, because half an address is not recognised as one."""
    shown = without_credentials(value)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Created with the first address: most command lines contain none."""
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in (_HTTP, _OTHER, _PARAMETER))


def without_credentials(text: str) -> str:
    """The text with every credential of an address replaced by `***`."""
    for start, end in sorted(credentials_in(text), reverse=True):
        text = text[:start] + _MASK + text[end:]
    return text


def credentials_in(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of credentials in addresses; they do not overlap."""
    if "://" not in text:
        return
    taken = 0
    for found in sorted(match.span("secret") for pattern in _patterns() for match in pattern.finditer(text)):
        if found[0] >= taken:
            taken = found[1]
            yield found


def reason_of(error: BaseException) -> str:
    """Why it was raised, never empty: its text, else that of its cause, else the name of its type."""
    seen: BaseException | None = error
    while seen is not None:
        said = (getattr(seen, "strerror", None) if isinstance(seen, OSError) else None) or str(seen)
        if said.strip():
            return said
        seen = seen.__cause__ or seen.__context__
    return _in_words(type(error).__name__)


def reason_with_file(error: OSError) -> str:
    """The reason with the file that the operating system refused, if it names one."""
    name = error.filename
    if isinstance(name, bytes):
        name = name.decode("utf-8", "surrogateescape")
    return f"{name!r}: {reason_of(error)}" if isinstance(name, str) else reason_of(error)


def typed_reason(error: BaseException) -> str:
    """`ValueError: not a number`; only the type if the error has no text."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _in_words(name: str) -> str:
    """`RemoteProtocolError` as `remote protocol error`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()
