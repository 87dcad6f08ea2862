"""Signatures of deliveries.

    Podium-Delivery   an id chosen by the sender: the same when a delivery is sent again
    Podium-Time       seconds since 1970
    Podium-Signature  sha256= and the HMAC-SHA256 of `delivery.time.body` in hex

The id is signed, too: otherwise an intercepted delivery could be sent again under another id.
"""

import hmac
from hashlib import sha256
from typing import Final

DELIVERY: Final = "Podium-Delivery"
TIME: Final = "Podium-Time"
SIGNATURE: Final = "Podium-Signature"
TOLERANCE_SECONDS: Final = 300
# Long enough to make guessing infeasible.
MIN_SECRET_BYTES: Final = 16
_PREFIX: Final = "sha256="
_MAX_DIGITS: Final = 12


def signature_of(secret: bytes, delivery: str, time: str, body: bytes) -> str:
    signed = f"{delivery}.{time}.".encode() + body
    return _PREFIX + hmac.new(secret, signed, sha256).hexdigest()


def is_signed(secret: bytes, delivery: str, time: str, body: bytes, given: str) -> bool:
    """Compares in constant time."""
    expected = signature_of(secret, delivery, time, body)
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))


def is_recent(time: str, now: float) -> bool:
    """Whether it was sent within five minutes, by the clocks of both sides."""
    if not (time.isascii() and time.isdecimal() and len(time) <= _MAX_DIGITS):
        return False
    return abs(int(time) - now) <= TOLERANCE_SECONDS
