"""What the payloads of events hold: one schema for those who write them and those who read them.

A field may be added; what an old one means never changes, for logs outlive code. Fields that no projection reads are
not listed. A payload that does not fit loses the fields that do not fit, and nothing else.
"""

import types
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from podium.log.artifacts import ArtifactRef
from podium.log.events import NO_PAYLOAD, EventType
from podium.log.runs import EngineRunRef
from podium.log.times import Timestamp


class Failure(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    """Why something failed; `category` is USER, SYSTEM, PLATFORM or TIMEOUT."""

    category: str = "SYSTEM"
    code: str = ""
    message: str = ""
    retryable: bool = False


# Of an attempt whose end nobody saw.
INTERRUPTED: Final = Failure("PLATFORM", "INTERRUPTED", "interrupted; it is not known whether it happened")


class RecordedArtifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A file below the run's artifacts has a `path`; what an artifact store keeps has a `uri` and a `kind`."""

    path: str | None = None
    uri: str | None = None
    kind: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: Timestamp | None = None

    def ref(self) -> ArtifactRef:
        uri = self.uri if self.uri is not None else f"artifacts/{self.path or ''}"
        kind = self.kind if self.kind is not None else "file"
        return ArtifactRef(uri, kind, self.sha256, self.size_bytes, self.expires_at)

    def as_fact(self) -> dict[str, Any]:
        fact: dict[str, Any] = msgspec.to_builtins(self)
        return fact


class StepEnd(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """StepCompleted, StepFailed, StepSkipped, StepInterrupted."""

    error: Failure | None = None
    artifacts: tuple[RecordedArtifact, ...] = ()
    warnings: tuple[str, ...] = ()


class RunQueued(msgspec.Struct, frozen=True, rename="camel"):
    needs_approval: bool = False


class RunStarted(msgspec.Struct, frozen=True, rename="camel"):
    engine_run_ref: EngineRunRef | None = None


class RunEnd(msgspec.Struct, frozen=True, rename="camel"):
    """RunCompleted, RunFailed, RunCancelled."""

    error: Failure | None = None


class AlertRaised(msgspec.Struct, frozen=True, rename="camel"):
    code: str = ""
    subject: str = ""
    message: str = ""


PAYLOADS: Final[dict[str, type[msgspec.Struct]]] = {
    EventType.STEP_COMPLETED.value: StepEnd,
    EventType.STEP_FAILED.value: StepEnd,
    EventType.STEP_SKIPPED.value: StepEnd,
    EventType.STEP_INTERRUPTED.value: StepEnd,
    EventType.ALERT_RAISED.value: AlertRaised,
    EventType.RUN_QUEUED.value: RunQueued,
    EventType.RUN_STARTED.value: RunStarted,
    EventType.RUN_COMPLETED.value: RunEnd,
    EventType.RUN_FAILED.value: RunEnd,
    EventType.RUN_CANCELLED.value: RunEnd,
}
_DECODERS: Final = {name: msgspec.json.Decoder(schema) for name, schema in PAYLOADS.items()}
_EMPTY: Final = {name: schema() for name, schema in PAYLOADS.items()}


class Misfit(msgspec.Struct, frozen=True):
    """A field that does not fit its schema, and why."""

    field: str
    reason: str


def read_payload(event_type: str, payload: bytes) -> tuple[Any, list[Misfit]]:
    """What a payload says, as far as it fits the schema of its type; and what does not fit."""
    if payload == NO_PAYLOAD:
        return _EMPTY[event_type], []
    try:
        return _DECODERS[event_type].decode(payload), []
    except (msgspec.DecodeError, msgspec.ValidationError):
        return _read_what_fits(event_type, payload)


def _read_what_fits(event_type: str, payload: bytes) -> tuple[Any, list[Misfit]]:
    misfits: list[Misfit] = []
    try:
        fields = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        return _EMPTY[event_type], [Misfit("payload", str(error))]
    found = _fitted(PAYLOADS[event_type], fields, "", misfits)
    return (_EMPTY[event_type] if found is msgspec.UNSET else found), misfits


def _fitted(schema: Any, value: Any, where: str, misfits: list[Misfit]) -> Any:
    """The value as its type, without what does not fit; UNSET if nothing of it does."""
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
