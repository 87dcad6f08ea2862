"""Public keys as text: `ed25519:BASE64`."""

from base64 import b64encode
from typing import Final

from podium.access.base64 import NotBase64, decode_exactly

_PUBLIC_PREFIX: Final = "ed25519:"
_PUBLIC_BYTES: Final = 32
_RIGHT: Final = "write ed25519:BASE64, as `podium sign --new-key` prints it"
_FIELD: Final = 2**255 - 19
# The y coordinates of the points of small order: with such a "key" anyone can create signatures.
_WEAK: Final = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)


class InvalidPublicKey(ValueError):
    """The text is not an ed25519 public key; the message says what would be valid."""


def public_text(public: bytes) -> str:
    return f"{_PUBLIC_PREFIX}{b64encode(public).decode()}"


def parse_public(text: str) -> bytes:
    """The 32 bytes of `ed25519:BASE64`. Raises `InvalidPublicKey`."""
    kind, mark, rest = text.partition(":")
    if f"{kind}{mark}" != _PUBLIC_PREFIX:
        raise InvalidPublicKey(f"it does not start with {_PUBLIC_PREFIX}; {_RIGHT}")
    try:
        raw = decode_exactly(rest, _PUBLIC_BYTES)
    except NotBase64 as error:
        # Without the text, which may be the private key.
        raise InvalidPublicKey(f"it is not the base64 of {_PUBLIC_BYTES} bytes; {_RIGHT}") from error
    if is_weak(raw):
        raise InvalidPublicKey(
            "anyone can make signatures of this key; make a new one with `podium sign --new-key`"
        )
    return raw


def is_weak(public: bytes) -> bool:
    """Whether anyone can create signatures that appear to be made with this key."""
    return (int.from_bytes(public, "little") & (2**255 - 1)) % _FIELD in _WEAK
