"""Base64 in its canonical encoding only: two different texts never decode to the same bytes."""

import binascii
from base64 import b64decode, b64encode


class NotBase64(ValueError):
    pass


def decode_exactly(text: str, size: int) -> bytes:
    """Also raises `NotBase64` for another number of bytes."""
    try:
        raw = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != size or b64encode(raw).decode() != text:
        raise NotBase64(f"{text[:100]!r} is not the base64 of {size} bytes")
    return raw
