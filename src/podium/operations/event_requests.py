"""The run that a message requests: with its body as inputs, and an id that is the same when it is delivered
again.

The run id is derived from the message, so the store decides whether its run already exists, even after a
crash. A message that can never start a run is poison: it is moved aside with a code, and never tried again.
"""

from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from podium.log.runs import Run
from podium.log.tracing import TRACEPARENT, receipt
from podium.operations.inputs import check_inputs
from podium.ports.engine import RunRequest
from podium.ports.events_in import HEADERS_UNREADABLE, Incoming

MAX_BYTES: Final = 256 * 1024
_MAX_NAME: Final = 60
# Key in the metadata of a run: which group started it.
_LISTENER: Final = "listener"


class Poison(Exception):
    """A message that cannot start a run; `code` says why, without any of its content."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def request_for(message: Incoming, template: RunRequest, group: str) -> RunRequest:
    """Raises `Poison`, and `InvalidInput` for inputs that the workflow does not accept."""
    plan = template.plan
    run_id = run_id_for(message, plan.metadata.plan_id, group)
    return replace(
        template,
        inputs=check_inputs(_body_of(message), plan.workflow),
        run_id=run_id,
        engine_facts={
            _LISTENER: {"group": group, "topic": message.topic},
            TRACEPARENT: receipt(run_id, message.header(TRACEPARENT)).header,
        },
    )


def run_id_for(message: Incoming, plan_id: str, group: str) -> str:
    """Derived from the message's own id; else from its position and time, because a topic that was created
    again reuses positions.
    """
    event_id = message.header("event_id")
    if event_id:
        identity = ["event", event_id]
    else:
        content = sha256(message.value).hexdigest()
        identity = ["place", str(message.partition), str(message.offset), str(message.timestamp), content]
    digest = sha256("|".join([group, message.topic, *identity]).encode(errors="replace")).hexdigest()
    return f"{plan_id[:_MAX_NAME]}-{digest[:24]}"


def was_started_by(run: Run, group: str) -> bool:
    facts = msgspec.json.decode(run.metadata)
    listener = facts.get(_LISTENER) if isinstance(facts, dict) else None
    return isinstance(listener, dict) and listener.get("group") == group


def _body_of(message: Incoming) -> dict[str, Any]:
    if message.has_unreadable_headers:
        raise Poison(HEADERS_UNREADABLE)
    if len(message.value) > MAX_BYTES:
        raise Poison("EVENT_TOO_LARGE")
    try:
        body = msgspec.json.decode(message.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Poison("EVENT_NOT_JSON") from None
    if not isinstance(body, dict):
        raise Poison("EVENT_NOT_AN_OBJECT")
    return body
