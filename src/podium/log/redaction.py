"""Secret values are never shown: every occurrence in output, logs, events and errors becomes `***`.

A value is searched for as it is and in the forms in which programs commonly print it: inside JSON, inside a
URL, in base64 and as Python quotes it in messages. Everything covered by any occurrence is masked;
overlapping occurrences share one mask, so that no piece remains of two secrets that overlap or contain each
other. Programs often strip a value before they print it, so it is searched for without the white space around
it, too. Values of fewer than six characters without it are not masked: they would hide half of every log and
protect nothing.

In base64 the value is also found in the middle of a longer encoded text, whatever is around it. Of the first
and the last character there only some bits belong to the value; such a border character stays visible.

Not found: a value that is split over lines (base64 wrapped at 76 columns, a key printed line by line),
encoded twice, or in any other form. Redaction is the last safety net, not a licence to print secrets.

Output arrives in chunks, and a secret may cross their border. A stream therefore holds back the end of what
it has seen, from the first place where a form might have started, and no more: less than the longest form.
However the output is divided into chunks, the result is the same as for the whole.

The cost is linear: per chunk one fast search for the first characters of each form, and one comparison
wherever they are found. Each chunk is searched together with what was held back.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import product
from typing import AnyStr, Final, Generic
from urllib.parse import quote, quote_plus

import msgspec

MIN_SECRET: Final = 6
MASK: Final = "***"


def is_maskable(value: str) -> bool:
    """White space around it does not count: what remains may be shown without it."""
    return len(value.strip()) >= MIN_SECRET


class Redactor:
    """Masks a fixed set of secret values. None of them is visible in it, not even in its `repr`."""

    def __init__(self, values: Iterable[str]) -> None:
        maskable = {value for value in values if is_maskable(value)}
        secret = maskable | {value.strip() for value in maskable}
        forms = {form for value in secret for form in _forms(value)}
        self._count = len(maskable)
        self._bytes = _Search(forms, MASK.encode())
        # Text is searched as text: encoding and decoding it would change what is not valid UTF-8.
        self._text = _Search({form.decode("utf-8", "surrogateescape") for form in forms} | secret, MASK)

    def redact(self, text: str) -> str:
        return self._text.masked(text, True, 0).shown

    def redact_bytes(self, data: bytes) -> bytes:
        return self._bytes.masked(data, True, 0).shown

    def stream(self) -> "RedactedStream":
        return RedactedStream(self._bytes)

    def __repr__(self) -> str:
        return f"Redactor({self._count} values)"


class RedactedStream:
    """Bytes that arrive in chunks: what `feed` and `finish` return, joined, is the redacted whole."""

    def __init__(self, search: "_Search[bytes]") -> None:
        self._search = search
        self._held = b""
        # How many of the held bytes belong to an occurrence whose mask has been emitted already.
        self._covered = 0

    def feed(self, chunk: bytes) -> bytes:
        return self._advance(chunk, last=False)

    def finish(self) -> bytes:
        """Return what was held back. The stream is then empty and may be reused."""
        return self._advance(b"", last=True)

    def _advance(self, chunk: bytes, last: bool) -> bytes:
        result = self._search.masked(self._held + chunk, last, self._covered)
        self._held, self._covered = result.held, result.covered
        return result.shown

    def __repr__(self) -> str:
        return f"RedactedStream({len(self._held)} bytes held back)"


# --- searching -----------------------------------------------------------------------------------


class _Masked(msgspec.Struct, Generic[AnyStr], frozen=True):
    shown: AnyStr
    held: AnyStr
    covered: int


class _Search(Generic[AnyStr]):
    """Finds every occurrence of some forms, each at least MIN_SECRET long."""

    def __init__(self, forms: Iterable[AnyStr], mask: AnyStr) -> None:
        self._mask: AnyStr = mask
        # By their first characters, which are what is searched for; longest form first, so that the first
        # match is the longest.
        self._by_head: dict[AnyStr, list[AnyStr]] = {}
        for form in sorted(forms, key=len, reverse=True):
            self._by_head.setdefault(form[:MIN_SECRET], []).append(form)
        self._beginnings: set[AnyStr] = {
            head[:length] for head in self._by_head for length in range(1, MIN_SECRET)
        }

    def masked(self, data: AnyStr, last: bool, covered: int) -> _Masked[AnyStr]:
        """Mask what is certain. `covered` is how many bytes at the start an earlier mask replaces."""
        spans, end = self._find(data, last)
        shown = []
        at = covered
        for start, stop in spans:
            if start >= end:
                # It will be found again, in what is held back.
                break
            if start >= at:
                shown += [data[at:start], self._mask]
            at = max(at, stop)
        shown.append(data[at:end])
        return _Masked(self._mask[:0].join(shown), data[end:], max(0, at - end))

    def _find(self, data: AnyStr, last: bool) -> tuple[list[tuple[int, int]], int]:
        """The longest occurrence at each place, in order, and the first place where one may be incomplete."""
        spans = []
        end = len(data) if last else self._open_end(data)
        for head, forms in self._by_head.items():
            for at in _places(data, head):
                if at >= end:
                    break
                found = next((form for form in forms if data.startswith(form, at)), None)
                if found is not None:
                    spans.append((at, at + len(found)))
                if not last and _unfinished(data, at, forms):
                    end = at
        spans.sort()
        return spans, end

    def _open_end(self, data: AnyStr) -> int:
        """The first place in the last few characters where a form might start whose head is not complete yet."""
        size = len(data)
        for start in range(max(0, size - MIN_SECRET + 1), size):
            if data[start:] in self._beginnings:
                return start
        return size


def _places(data: AnyStr, head: AnyStr) -> Iterator[int]:
    """Every place of the head, including overlapping ones."""
    at = data.find(head)
    while at >= 0:
        yield at
        at = data.find(head, at + 1)


def _unfinished(data: AnyStr, at: int, forms: list[AnyStr]) -> bool:
    left = len(data) - at
    # Compare lengths first: slicing the rest for every place would make the cost quadratic.
    return left < len(forms[0]) and any(left < len(form) and form.startswith(data[at:]) for form in forms)


# --- forms ---------------------------------------------------------------------------------------


def _forms(value: str) -> Iterator[bytes]:
    raw = _as_bytes(value)
    yield raw
    yield from map(_as_bytes, _json_forms(value))
    yield from map(_as_bytes, _quoted_forms(value))
    yield from map(str.encode, _url_forms(raw))
    yield from _base64_forms(raw)


def _as_bytes(text: str) -> bytes:
    try:
        # The environment of a process is bytes; Python shows those that are not UTF-8 as surrogates.
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _json_forms(value: str) -> Iterator[str]:
    """The text between the quotes of a JSON string, as different writers escape it."""
    # Imported with the first secret only.
    from json import dumps

    for ascii_only, slash, html_safe in product((True, False), repeat=3):
        text = dumps(value, ensure_ascii=ascii_only)[1:-1]
        if slash:
            text = text.replace("/", "\\/")
        if html_safe:  # Go does this by default
            text = re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)
        yield text
        # Some writers use upper-case digits. An escaped backslash in front of a u is skipped as a pair.
        yield re.sub(r"\\(?:u([0-9a-f]{4})|.)", _upper_case_escape, text)


def _quoted_forms(value: str) -> Iterator[str]:
    """The text inside the quotes of `repr` and `ascii`, which error messages use, including ours.

    If the text contains a double quote, Python uses single quotes and escapes the single quotes in it; which
    quotes a message uses depends on what is around the value.
    """
    for quoted in (repr(f'"{value}'), ascii(f'"{value}')):
        yield quoted[2:-1]
        yield quoted[2:-1].replace("\\'", "'")


def _upper_case_escape(found: re.Match[str]) -> str:
    return f"\\u{found[1].upper()}" if found[1] else found[0]


def _url_forms(raw: bytes) -> Iterator[str]:
    # Characters that are not escaped: none, the slash (paths), or those that JavaScript's encodeURIComponent
    # keeps.
    for safe, encode in product(("", "/", "!*'()"), (quote, quote_plus)):
        text = encode(raw, safe=safe)
        yield text
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    padded = b64encode(raw)
    standard = {padded, padded.rstrip(b"=")} | {_inside_base64(raw, before) for before in (0, 1, 2)}
    for form in standard:
        yield form
        yield form.translate(bytes.maketrans(b"+/", b"-_"))


def _inside_base64(raw: bytes, before: int) -> bytes:
    """The characters that depend on the value alone, when `before` bytes (modulo 3) precede it.

    A character is six bits: those that share a bit with a byte before or after the value are left out.
    """
    encoded = b64encode(bytes(before) + raw)
    return encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
