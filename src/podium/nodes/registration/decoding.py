"""Decodes a message: an event that the contract consumes, or a code that says why it is none. Pure.

The value of a message is the body of the event, as JSON; its topic says which event it is. The headers
`event_type` and `event_version` are optional, and have to match if they are present. Codes never contain any
part of a message.
"""

import re
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from podium.nodes.registration.intake import MAX_AHEAD, NodeHeartbeatEvent
from podium.nodes.registration.models.model_orchestrator_input import (
    NodeIntrospectionEvent,
    NodeRegistrationAcked,
    RegistryRequestIntrospectionEvent,
)

MAX_BYTES: Final = 256 * 1024
TOO_LARGE: Final = "EVENT_TOO_LARGE"
NOT_JSON: Final = "EVENT_NOT_JSON"
NOT_AN_OBJECT: Final = "EVENT_NOT_AN_OBJECT"
UNKNOWN_TYPE: Final = "EVENT_TYPE_UNKNOWN"
UNKNOWN_VERSION: Final = "EVENT_VERSION_UNKNOWN"
INVALID: Final = "EVENT_INVALID"
INVALID_NODE_ID: Final = "NODE_ID_INVALID"
IN_THE_FUTURE: Final = "EVENT_IN_THE_FUTURE"
HAS_CREDENTIALS: Final = "ENDPOINT_WITH_CREDENTIALS"

_VERSION: Final = re.compile(r"1(\.[0-9]{1,9}){0,2}", re.ASCII)
# No column of a database accepts this character.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class RuntimeTick(BaseModel):
    """The time that decides about deadlines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    now: AwareDatetime
    correlation_id: UUID | None = None


Body: TypeAlias = (
    NodeIntrospectionEvent
    | RegistryRequestIntrospectionEvent
    | NodeRegistrationAcked
    | NodeHeartbeatEvent
    | RuntimeTick
)
_MODELS: Final[dict[str, type[Body]]] = {
    "NodeIntrospectionEvent": NodeIntrospectionEvent,
    "RegistryRequestIntrospectionEvent": RegistryRequestIntrospectionEvent,
    "NodeRegistrationAcked": NodeRegistrationAcked,
    "NodeHeartbeatEvent": NodeHeartbeatEvent,
    "RuntimeTick": RuntimeTick,
}


class Refused(Exception):
    """A message that can never be used. Contains nothing but its code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def decode(
    expected: str, value: bytes, *, event_type: str | None, version: str | None, received_at: datetime
) -> Body:
    """`expected`: the event that the contract has for the topic. `received_at`: according to the bus. Raises
    `Refused`.
    """
    if len(value) > MAX_BYTES:
        raise Refused(TOO_LARGE)
    if event_type not in (None, "", expected) or expected not in _MODELS:
        raise Refused(UNKNOWN_TYPE)
    if version and _VERSION.fullmatch(version) is None:
        raise Refused(UNKNOWN_VERSION)
    body = _validated(_MODELS[expected], value, _object(value))
    timestamp = getattr(body, "timestamp", None)
    if timestamp is not None and timestamp > received_at + MAX_AHEAD:
        raise Refused(IN_THE_FUTURE)
    return body


def _object(value: bytes) -> dict[str, Any]:
    try:
        read = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(NOT_JSON) from None
    if not isinstance(read, dict):
        raise Refused(NOT_AN_OBJECT)
    if _NUL.search(value):
        raise Refused(INVALID)
    return read


def _validated(model: type[Body], value: bytes, read: dict[str, Any]) -> Body:
    """Strictly: a number is not taken from a text or a truth value, and a time not from a number."""
    try:
        return model.model_validate_json(value, strict=True)
    except ValidationError as invalid:
        wrong = {one["loc"][:1] for one in invalid.errors(include_input=False, include_context=False)}
    except (ValueError, OverflowError, RecursionError):
        wrong = set()
    if ("node_id",) in wrong:
        raise Refused(INVALID_NODE_ID)
    # pydantic checks its values one by one, so the remaining cause is a user name or password.
    has_texts = _is_texts(read.get("endpoints"))
    raise Refused(HAS_CREDENTIALS if wrong == {("endpoints",)} and has_texts else INVALID)


def _is_texts(endpoints: Any) -> bool:
    return isinstance(endpoints, dict) and all(isinstance(one, str) for one in endpoints.values())
