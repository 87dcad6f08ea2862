"""Payloads in the form in which a store keeps them: large values separate, and nothing that is too large or
not JSON.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from podium.errors import InvalidEvent
from podium.log.events import MAX_PAYLOAD_BYTES, EventType, check_payload, encode_payload
from podium.runtime.spilling import Values, spill

# The exit code of a step whose result cannot be stored.
_NOT_KEPT: Final = 125


class StorableEnd(msgspec.Struct, frozen=True):
    event_type: str
    payload: dict[str, Any]
    # None if it is the encoding of `payload`.
    encoded: bytes | None


async def storable(payload: dict[str, Any], values: Callable[[], Values] | None) -> bytes:
    """Raises `InvalidEvent` if no store accepts it."""
    encoded = encode_payload(payload)
    if len(encoded) > MAX_PAYLOAD_BYTES and values is not None:
        encoded = await spill(payload, values())
    check_payload(encoded)
    return encoded


async def storable_end(
    event_type: str, payload: dict[str, Any], values: Callable[[], Values] | None
) -> StorableEnd:
    """The end of an attempt. If it cannot be stored, the step has failed."""
    try:
        return StorableEnd(event_type, payload, await storable(payload, values))
    except InvalidEvent as error:
        failure = {"category": "USER", "code": error.code, "message": str(error), "retryable": False}
        return StorableEnd(EventType.STEP_FAILED, {"exitCode": _NOT_KEPT, "error": failure}, None)
