"""Canonical JSON (RFC 8785): equal values have equal bytes, so that their hashes can be compared."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import msgspec

from podium.errors import PodiumError
from podium.patterns import lazy_pattern

# Half of all JSON readers round numbers beyond it.
MAX_INTEGER: Final = 2**53 - 1
# From here on a float is written with an exponent again: 1e+21. Between the two limits it would be read back
# as an integer.
WRITTEN_WITH_EXPONENT: Final = 1e21


class NotCanonical(PodiumError):
    """A value without canonical JSON: a number that would be rounded, a lone surrogate, or not JSON at all."""

    code = "NOT_CANONICAL"


def canonical_json(value: Any) -> bytes:
    """The canonical form of `value`, which is made of structs, dicts, lists, tuples and scalars.

    Numbers are finite: others are refused where they are read, and JSON cannot represent them.
    """
    try:
        quick = msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError) as error:
        raise NotCanonical(f"this has no JSON: {error}") from error
    # Unlike the RFC, msgspec orders keys by UTF-8 and has its own format for fractions and large numbers.
    if (quick.isascii() or not _BEYOND_UFFFF.search(quick)) and not _has_other_numbers(quick):
        return quick
    # Imported with the first value that msgspec cannot write canonically: most workflows have none.
    from json.encoder import encode_basestring

    written: list[str] = []
    _write(msgspec.to_builtins(value), written.append, encode_basestring)
    try:
        return "".join(written).encode()
    except UnicodeEncodeError as error:
        raise NotCanonical(
            f"half a character (a lone surrogate) has no JSON: {error.object[error.start]!a}"
        ) from error


def _has_other_numbers(written: bytes) -> bool:
    # Texts are removed only if something in the whole looks like such a number, because that is rare and
    # slow.
    return bool(_DIFFERS.search(written) and _DIFFERS.search(_TEXTS.sub(b"", written)))


_TEXTS: Final = lazy_pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_BEYOND_UFFFF: Final = lazy_pattern(rb"[\xf0-\xff]")
# Digits at the start or after `:`, `,`, `[` or `-`, as in numbers; the digits of a hash do not match.
_DIFFERS: Final = lazy_pattern(rb"[0-9](?<![^:,\[-].)(?:[0-9]*[.eE]|[0-9]{15})")


def comes_back(value: Any) -> bool:
    """Whether plain data is the same after it was written and read."""
    try:
        written = canonical_json(value)
        back = msgspec.json.decode(written)
        return bool(back == value) and canonical_json(back) == written
    except NotCanonical:
        return False


def canonical_sha256(value: Any) -> str:
    return sha256(canonical_json(value)).hexdigest()


def _write(value: Any, put: Callable[[str], None], text: Callable[[str], str]) -> None:
    kind = type(value)
    if kind is str:
        put(text(value))
    elif kind is dict:
        before = "{"
        for key in _sorted(value):
            inner = value[key]
            # Most values are texts; this saves a call for each.
            if type(inner) is str:
                put(f"{before}{text(key)}:{text(inner)}")
            else:
                put(f"{before}{text(key)}:")
                _write(inner, put, text)
            before = ","
        put("{}" if before == "{" else "}")
    elif kind is list or kind is tuple:
        before = "["
        for item in value:
            if type(item) is str:
                put(f"{before}{text(item)}")
            else:
                put(before)
                _write(item, put, text)
            before = ","
        put("[]" if before == "[" else "]")
    elif value is None:
        put("null")
    elif kind is bool:
        put("true" if value else "false")
    elif kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise NotCanonical(f"the number {value} is too large to be kept exactly; write it as text")
        put(str(value))
    elif kind is float:
        put(_float(value))
    else:
        raise NotCanonical(f"a {kind.__name__} has no JSON")


def _sorted(keys: dict[str, Any]) -> list[str]:
    """By their UTF-16 code units, as the RFC requires; that differs from Python's order beyond U+FFFF only."""
    if len(keys) < 2:
        return list(keys)
    if "".join(keys).isascii():
        return sorted(keys)
    return sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _float(value: float) -> str:
    """A float as ECMAScript writes it: the shortest digits that read back, without an exponent between 1e-6
    and 1e21.
    """
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS times ten to this power.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits) if whole == "0" else 0)
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        padded = digits.ljust(point, "0")
        return f"{sign}{padded[:point]}{'.' if len(padded) > point else ''}{padded[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"
