"""Contents of event payloads: one struct per event type, shared by writers and readers.

    end = payload_of(record, StepEnd)

A field may be added; what an old one means never changes, because logs outlive code. Fields that no code in
Podium reads by name are not listed. If a field of a payload does not fit, only that field is lost. Fields
that may be moved out of an event because of their size (`output`, `inputs`, ...) are of any type: then they
hold a reference.
"""

import types
from functools import cache
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from podium.log.artifacts import ArtifactKind, ArtifactRef
from podium.log.engines import EngineRunRef
from podium.log.events import NO_PAYLOAD, EventRecord, EventType
from podium.log.times import Timestamp

# An attempt that was stopped from outside ends as failed with one of these codes, but does not count as a
# failure.
STOPPED_CODES: Final = frozenset({"CANCELLED", "INTERRUPTED", "JOIN_DECIDED"})


class Failure(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    """Why something failed; `category` is USER, SYSTEM, PLATFORM or TIMEOUT."""

    category: str = "SYSTEM"
    code: str = ""
    message: str = ""
    retryable: bool = False
    # How long the server asked us to wait.
    retry_after_ms: float | None = None

    @property
    def text(self) -> str:
        return self.message or self.code

    def as_fact(self) -> dict[str, Any]:
        """The failure as it is in the log, with the fields that every failure has."""
        fact = {
            "category": self.category,
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
        }
        return fact if self.retry_after_ms is None else {**fact, "retryAfterMs": self.retry_after_ms}


# Failure of an attempt whose end was not seen.
INTERRUPTED: Final = Failure("PLATFORM", "INTERRUPTED", "interrupted; it is not known whether it happened")


class RecordedArtifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A file in the run's artifact directory has a `path`; an object in an artifact store has a `uri`, too.
    Without a `kind` it is a file.
    """

    path: str | None = None
    uri: str | None = None
    kind: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: Timestamp | None = None

    def ref(self) -> ArtifactRef:
        uri = self.uri if self.uri is not None else f"artifacts/{self.path or ''}"
        kind = self.kind if self.kind is not None else ArtifactKind.FILE.value
        return ArtifactRef(uri, kind, self.sha256, self.size_bytes, self.expires_at)

    def as_fact(self) -> dict[str, Any]:
        fact: dict[str, Any] = msgspec.to_builtins(self)
        return fact


class Question(msgspec.Struct, frozen=True, rename="camel"):
    """The question of an approval."""

    message: str = ""
    assignee: str | None = None


class StepStarted(msgspec.Struct, frozen=True, rename="camel"):
    approval: Question | None = None
    # A composite of a reopened run continues: what is done inside it stays done.
    reopened: bool = False
    # Ids of the signals that changed the step for this attempt.
    overridden_by: list[str] = []


class StepEnd(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """StepCompleted, StepFailed, StepSkipped, StepInterrupted."""

    error: Failure | None = None
    artifacts: tuple[RecordedArtifact, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int | None = None
    output: Any = ""
    output_bytes: int | None = None
    truncated: bool = False
    stderr_tail: Any = ""
    duration_ms: float | None = None
    session: Any = None
    diff: Any = None
    # Composites and calls only.
    summary: Any = None
    exit_reason: str | None = None
    outputs: Any = None
    # Skips only.
    reason: str = ""
    # Approvals only: the signal, its sender, and how the sender was identified.
    signal_id: str | None = None
    by: str | None = None
    by_method: str | None = None
    claimed_by: str | None = None
    # The attempt's fingerprint, and which attempt its result was reused from, or why it was not reused.
    fingerprint: str | None = None
    reused_from: Any = None
    changed: str | None = None

    @property
    def failure(self) -> str:
        """Why it failed, in words; empty if that is not recorded."""
        return self.error.text if self.error is not None else ""

    @property
    def is_stopped(self) -> bool:
        """Whether the attempt was stopped and did not end by itself."""
        return self.error is not None and self.error.code in STOPPED_CODES


class RetryScheduled(msgspec.Struct, frozen=True, rename="camel"):
    due: Timestamp = ""


class SignedBy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A valid signature of the plan: the id of the key at that time, and the key itself (`ed25519:BASE64`)."""

    key_id: str
    public: str
    signed_at: Timestamp
    expires: Timestamp | None = None


class RetriedBy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The RETRY_RUN that requested a run: the decision about it is in the log of the new run only."""

    signal_id: str
    # Hash of the content as it was sent.
    request_sha256: str
    by: str
    by_method: str
    by_uid: int | None = None
    reason: str | None = None


class RunQueued(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The request that created a run."""

    inputs: Any = {}
    needs_approval: bool = False
    # Who approved the published plan, so that the run needs no approval of its own.
    plan_approved_by: str | None = None
    # Reruns only.
    original_run_id: str | None = None
    rerun_from: str | None = None
    only_changed: bool = False
    # Only for a run that a RETRY_RUN requested.
    retried_by: RetriedBy | None = None
    env_files: Any = None
    signed_by: tuple[SignedBy, ...] = ()


class RunStarted(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The parts of the environment that decisions may read, fixed once at the start."""

    rules_version: int | None = None
    engine_run_ref: EngineRunRef | None = None
    inputs: Any = {}
    env: dict[str, Any] = {}
    run: dict[str, Any] = {}
    # Reruns only: approvals that had been given for another plan, and how many of the next events were
    # copied.
    asked_again: tuple[str, ...] = ()
    taken_over: int | None = None
    # Only for a run that needed an approval: the SHA-256 of the plan that starts.
    plan_sha256: str | None = None


class RunApproved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which plan was approved, by whom, and how the approver was identified."""

    plan_sha256: str | None = None
    by: str | None = None
    by_method: str | None = None
    by_uid: int | None = None
    claimed_by: str | None = None
    signal_id: str | None = None
    reason: str | None = None


class RunPaused(msgspec.Struct, frozen=True, rename="camel"):
    code: str | None = None
    step_id: str | None = None


class RunReopened(msgspec.Struct, frozen=True, rename="camel"):
    by: str | None = None


class RunEnd(msgspec.Struct, frozen=True, rename="camel"):
    """RunCompleted, RunFailed, RunCancelled."""

    error: Failure | None = None
    exit_code: int | None = None
    reason: str | None = None
    outputs: Any = None

    @property
    def code(self) -> int:
        return self.exit_code if self.exit_code is not None else 1

    @property
    def message(self) -> str | None:
        return self.error.message if self.error is not None else None


class Signal(msgspec.Struct, frozen=True, rename="camel"):
    """SignalAccepted, SignalRejected, SignalIgnored."""

    signal_id: str = ""
    signal_type: str = ""
    payload: dict[str, Any] = {}
    by: str | None = None
    by_method: str | None = None
    # Refusals only.
    reason: str = ""
    code: str = ""
    # Hash of the content as it was sent.
    request_sha256: str = ""


class TimerFired(msgspec.Struct, frozen=True, rename="camel"):
    key: str | None = None
    reused_from: Any = None


class ProbeAnswered(msgspec.Struct, frozen=True, rename="camel"):
    key: str | None = None
    answers: tuple[bool, ...] = ()


class AlertRaised(msgspec.Struct, frozen=True, rename="camel"):
    code: str = ""
    subject: str = ""
    message: str = ""


PAYLOADS: Final[dict[str, type[msgspec.Struct]]] = {
    EventType.RUN_QUEUED.value: RunQueued,
    EventType.RUN_APPROVED.value: RunApproved,
    EventType.RUN_STARTED.value: RunStarted,
    EventType.RUN_PAUSED.value: RunPaused,
    EventType.RUN_REOPENED.value: RunReopened,
    EventType.RUN_COMPLETED.value: RunEnd,
    EventType.RUN_FAILED.value: RunEnd,
    EventType.RUN_CANCELLED.value: RunEnd,
    EventType.STEP_STARTED.value: StepStarted,
    EventType.STEP_COMPLETED.value: StepEnd,
    EventType.STEP_FAILED.value: StepEnd,
    EventType.STEP_SKIPPED.value: StepEnd,
    EventType.STEP_INTERRUPTED.value: StepEnd,
    EventType.STEP_RETRY_SCHEDULED.value: RetryScheduled,
    EventType.SIGNAL_ACCEPTED.value: Signal,
    EventType.SIGNAL_REJECTED.value: Signal,
    EventType.SIGNAL_IGNORED.value: Signal,
    EventType.TIMER_FIRED.value: TimerFired,
    EventType.PROBE_ANSWERED.value: ProbeAnswered,
    EventType.ALERT_RAISED.value: AlertRaised,
}
_decoder: Final = cache(msgspec.json.Decoder)
_empty: Final = cache(lambda schema: schema())
_P = TypeVar("_P", bound=msgspec.Struct)


class Misfit(msgspec.Struct, frozen=True):
    """A field that does not fit its schema, and why."""

    field: str
    reason: str


def payload_of(record: EventRecord, schema: type[_P]) -> _P:
    """The payload of an event, without fields that do not fit."""
    return read_as(schema, record.payload)[0]


def fields_of(record: EventRecord) -> dict[str, Any]:
    """All fields of the payload as they were written; empty if the payload is not an object."""
    if record.payload == NO_PAYLOAD:
        return {}
    try:
        decoded = msgspec.json.decode(record.payload)
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def read_payload(event_type: str, payload: bytes) -> tuple[Any, list[Misfit]]:
    """The payload by the schema of its event type, and the fields that do not fit."""
    return read_as(PAYLOADS[event_type], payload)


def read_as(schema: type[_P], payload: bytes | msgspec.Raw) -> tuple[_P, list[Misfit]]:
    if payload == NO_PAYLOAD:
        return _empty(schema), []
    try:
        return _decoder(schema).decode(payload), []
    except (msgspec.DecodeError, msgspec.ValidationError):
        return _read_what_fits(schema, payload)


def _read_what_fits(schema: type[_P], payload: bytes | msgspec.Raw) -> tuple[_P, list[Misfit]]:
    misfits: list[Misfit] = []
    try:
        fields = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        return _empty(schema), [Misfit("payload", str(error))]
    found = _fitted(schema, fields, "", misfits)
    return (_empty(schema) if found is msgspec.UNSET else found), misfits


def _fitted(schema: Any, value: Any, where: str, misfits: list[Misfit]) -> Any:
    """The value converted to its type, without parts that do not fit; UNSET if nothing fits."""
    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        reason = str(error)
    schema = _without_none(schema)
    if isinstance(schema, type) and issubclass(schema, msgspec.Struct) and isinstance(value, dict):
        return _fitted_struct(schema, value, where, misfits)
    if get_origin(schema) is tuple and isinstance(value, list):
        each = [_fitted(get_args(schema)[0], one, f"{where}[]", misfits) for one in value]
        return tuple(one for one in each if one is not msgspec.UNSET)
    misfits.append(Misfit(where or "payload", reason))
    return msgspec.UNSET


def _fitted_struct(
    schema: type[msgspec.Struct], value: dict[str, Any], where: str, misfits: list[Misfit]
) -> Any:
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(schema):
        if field.encode_name in value:
            place = f"{where}.{field.encode_name}".lstrip(".")
            found = _fitted(field.type, value[field.encode_name], place, misfits)
            if found is not msgspec.UNSET:
                given[field.name] = found
    try:
        return schema(**given)
    except TypeError:
        misfits.append(Misfit(where or "payload", "a required field is missing"))
        return msgspec.UNSET


def _without_none(schema: Any) -> Any:
    """`X` of `X | None`."""
    if get_origin(schema) in (Union, types.UnionType):
        return next(one for one in get_args(schema) if one is not type(None))
    return schema
