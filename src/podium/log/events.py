"""Events: everything that ever happens to a run. The log of events is the only source of truth.

A *write* is what a producer hands to the store; a *record* is what the store returns: the write with its
position in the run (`run_seq`) and the moment it became durable. Records are never changed. Events outlive
the code that wrote them: types and optional fields may be added, and what an old one means never changes.

The payload is carried as the bytes of a JSON object. Only readers that need it decode it; most do not.

The structs that exist by the hundred thousand are hidden from the garbage collector (`gc=False`): they hold
only values that cannot refer back to them.
"""

from enum import StrEnum
from typing import Final

import msgspec

from podium.errors import InvalidEvent, PayloadTooLarge
from podium.log.ids import RunId, check_id, check_step_id, check_uuid4
from podium.log.times import Timestamp, is_timestamp
from podium.patterns import lazy_pattern

MAX_PAYLOAD_BYTES: Final = 256 * 1024
NO_PAYLOAD: Final = b"{}"


class EventType(StrEnum):
    """The types that Podium itself writes. The set is open: a store keeps and returns unknown types."""

    RUN_QUEUED = "RunQueued"
    RUN_APPROVED = "RunApproved"
    RUN_STARTED = "RunStarted"
    RUN_PAUSED = "RunPaused"
    RUN_RESUMED = "RunResumed"
    RUN_COMPLETED = "RunCompleted"
    RUN_FAILED = "RunFailed"
    RUN_CANCELLED = "RunCancelled"
    RUN_REOPENED = "RunReopened"
    STEP_STARTED = "StepStarted"
    STEP_COMPLETED = "StepCompleted"
    STEP_FAILED = "StepFailed"
    STEP_SKIPPED = "StepSkipped"
    STEP_INTERRUPTED = "StepInterrupted"
    SIGNAL_ACCEPTED = "SignalAccepted"
    SIGNAL_REJECTED = "SignalRejected"
    SIGNAL_IGNORED = "SignalIgnored"
    # Podium's own types: optional, and readers may ignore them.
    STEP_RETRY_SCHEDULED = "StepRetryScheduled"
    TIMER_FIRED = "TimerFired"
    PROBE_ANSWERED = "ProbeAnswered"
    BUDGET_CHARGED = "BudgetCharged"
    RUN_VALIDATION_REPORT = "RunValidationReport"
    ALERT_RAISED = "AlertRaised"
    NOTIFICATION_DUE = "NotificationDue"


class EventWrite(msgspec.Struct, gc=False, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An event before it is stored. `step_id` is for Step* events, and only for them."""

    event_id: str
    event_type: str
    idempotency_key: str
    emitted_at: Timestamp
    step_id: str | None = None
    logical_attempt_id: int = 1
    engine_attempt_id: int = 1
    payload: bytes = NO_PAYLOAD


class RunIdentity(msgspec.Struct, gc=False, frozen=True, kw_only=True, rename="camel"):
    """The part of an envelope that all events of a run share: tenant, run and plan."""

    run_id: RunId
    tenant_id: str
    project_id: str
    environment_id: str
    plan_id: str
    plan_version: str


class EventRecord(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """An event in the log."""

    run: RunIdentity
    run_seq: int
    event_id: str
    event_type: str
    step_id: str | None
    logical_attempt_id: int
    engine_attempt_id: int
    idempotency_key: str
    emitted_at: Timestamp
    persisted_at: Timestamp
    payload: bytes


# The types Podium writes, and whether each is about a step.
_KNOWN_TYPES: Final = {event_type.value: event_type.value.startswith("Step") for event_type in EventType}
_TYPE: Final = lazy_pattern(r"[A-Z][A-Za-z0-9]{0,63}")
_KEY: Final = lazy_pattern(r"[0-9a-f]{64}")
_MAX_ATTEMPTS: Final = 2**31
# Paths of at most this many characters are within the limit in bytes, whichever characters they have.
_SHORT_PATH: Final = 256
# Id, key and moment of nearly every event, matched with one pattern; none of them contains a space. Moments
# at the end of a month do not match and take the full check.
_USUAL: Final = lazy_pattern(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12} [0-9a-f]{64} "
    r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
).fullmatch


def check_write(write: EventWrite) -> None:
    """Refuse an event that no store may keep. Every store calls this, so all stores accept the same events.

    It runs for every event, so a few calls accept the usual ones, and only the rest is checked in full.
    """
    event_type, step_id = write.event_type, write.step_id
    is_usual = _USUAL(f"{write.event_id} {write.idempotency_key} {write.emitted_at}")
    if not is_usual:
        check_uuid4("event", write.event_id)
    is_about_a_step = _KNOWN_TYPES.get(event_type)
    if is_about_a_step is None:
        if not _TYPE.fullmatch(event_type):
            raise InvalidEvent(f"event type {event_type[:60]!a} is not in PascalCase")
        is_about_a_step = event_type.startswith("Step")
    if is_about_a_step != (step_id is not None):
        needs = "needs a step" if is_about_a_step else "may not have a step"
        raise InvalidEvent(f"an event of type {event_type} {needs}")
    if step_id is not None and not (
        0 < len(step_id) <= _SHORT_PATH and "|" not in step_id and step_id.isprintable()
    ):
        check_step_id(step_id)
    if not (1 <= write.logical_attempt_id < _MAX_ATTEMPTS and 1 <= write.engine_attempt_id < _MAX_ATTEMPTS):
        raise InvalidEvent(f"attempts of an event count from 1: {event_type}")
    if not is_usual:
        if not _KEY.fullmatch(write.idempotency_key):
            raise InvalidEvent(f"the idempotency key of {event_type} is not a SHA-256 in lower-case hex")
        if not is_timestamp(write.emitted_at):
            raise InvalidEvent(f"emittedAt {write.emitted_at[:40]!a} is not like 2026-01-01T12:00:00.000000Z")
    check_payload(write.payload)


def is_event_type(text: str) -> bool:
    """Whether `text` is a valid event type."""
    return _TYPE.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Whether an event can have this idempotency key."""
    return _KEY.fullmatch(text) is not None


def check_payload(payload: bytes) -> None:
    """A payload is the UTF-8 text of one JSON object, at most 256 KiB."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"a payload has {len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} are kept; "
            "put large values into artifacts"
        )
    if payload == NO_PAYLOAD:
        return
    try:
        _OBJECT.decode(payload)
        if not payload.isascii():
            payload.decode()
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise InvalidEvent(f"a payload is not a JSON object in UTF-8: {error}") from error


def encode_payload(payload: object) -> bytes:
    """Plain JSON values as the bytes of a payload."""
    try:
        encoded = msgspec.json.encode(payload)
    except (TypeError, UnicodeEncodeError, ValueError) as error:
        raise InvalidEvent(f"a payload cannot be written as JSON: {error}") from error
    return encoded


def check_identity(run: RunIdentity) -> None:
    for kind in ("run_id", "tenant_id", "project_id", "environment_id", "plan_id", "plan_version"):
        check_id(kind, getattr(run, kind))


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
