"""Steps that publish: the message is part of their completion, so it is sent if and only if that is in the log."""

from typing import Any, Final

import msgspec

from podium.expressions.evaluate import MISSING, EvaluationError, Lookup
from podium.expressions.templates import fill_in, render
from podium.log.tracing import TRACEPARENT
from podium.plan.plan import Publish

# An event has at most 256 KiB, and a message is never moved out of it.
MAX_MESSAGE_BYTES: Final = 128 * 1024


class MessageTooLarge(EvaluationError):
    code = "MESSAGE_TOO_LARGE"


def message_of(body: Publish, lookup: Lookup) -> dict[str, Any]:
    """The message as it is stored. Raises `EvaluationError`."""
    message: dict[str, Any] = {
        "topic": body.topic,
        "key": render(body.key, lookup) if body.key is not None else None,
        "type": body.type or body.topic,
        "body": fill_in(body.body, lookup),
    }
    parent = lookup(("run", TRACEPARENT))
    if parent is not MISSING:
        message[TRACEPARENT] = parent
    size = len(msgspec.json.encode(message))
    if size > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(
            f"the message for {body.topic!r} has {size} bytes, at most {MAX_MESSAGE_BYTES} are possible; publish the "
            "name of an artifact instead"
        )
    return message
