"""Views of one run as the API shows them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from podium.log.payloads import Failure
from podium.log.snapshots import StepSnapshot
from podium.log.times import timestamp
from podium.operations.log_views import STREAM_OF, LogMatch
from podium.operations.run_files import RunArtifact
from podium.operations.run_views import Comparison, RunPicture, Span
from podium.operations.runs import RunView
from podium.ports.logs import StoredLog
from podium.server.run_bodies import RunBody

if TYPE_CHECKING:
    from podium.drawing.picture import Arrow, Box


class RunDetailBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A run with where it is: counts of steps, times, failure, cost.

    `details`: if they were asked for, the run, what drives it, what it waits for and its steps.
    """

    run: RunBody
    summary: dict[str, Any]
    run_seq: int
    details: dict[str, Any] | None = None

    @classmethod
    def of(cls, view: RunView, details: dict[str, Any] | None = None) -> "RunDetailBody":
        run = RunBody.of(view.run)
        return cls(run=run, summary=view.summary.as_json(), run_seq=run.run_seq, details=details)


class StepBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One step: its newest attempt, and up to nine before it, newest first."""

    step_id: str
    status: str
    attempts: int
    newest: dict[str, Any]
    earlier: tuple[dict[str, Any], ...] = ()
    usage: dict[str, float] = {}

    @classmethod
    def of(cls, step: StepSnapshot) -> "StepBody":
        return cls(
            step_id=step.step_id,
            status=step.status.value,
            attempts=step.attempt_count,
            newest=msgspec.to_builtins(step.newest),
            earlier=tuple(msgspec.to_builtins(one) for one in step.earlier),
            usage=step.usage,
        )


class StepsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Steps by path. `next`: for `after` of the next page; null if this was the last one."""

    steps: tuple[StepBody, ...]
    run_seq: int
    next: str | None


class BoxBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A step of the picture. `counts`: its instances by status; a step in a loop has many."""

    number: int
    kind: str
    name: str
    path: str = ""
    detail: str = ""
    notes: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    inside: "tuple[BoxBody, ...] | None" = None


class ArrowBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    source: int
    target: int
    events: tuple[str, ...]
    implied: bool


class BoxesBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The picture of the run's plan with its progress."""

    boxes: tuple[BoxBody, ...]
    arrows: tuple[ArrowBody, ...]
    run_seq: int

    @classmethod
    def of(cls, picture: RunPicture) -> "BoxesBody":
        counts = {path: {one.value: n for one, n in found.items()} for path, found in picture.counts.items()}
        return cls(
            boxes=tuple(_box(box, counts) for box in picture.boxes),
            arrows=tuple(map(_arrow, picture.arrows)),
            run_seq=picture.run.head,
        )


def _box(box: "Box", counts: dict[str, dict[str, int]]) -> BoxBody:
    return BoxBody(
        number=box.number,
        kind=box.kind,
        name=box.name,
        path=box.path,
        detail=box.detail,
        notes=box.notes,
        counts=counts.get(box.path, {}),
        inside=tuple(_box(one, counts) for one in box.inside) if box.inside is not None else None,
    )


def _arrow(arrow: "Arrow") -> ArrowBody:
    return ArrowBody(source=arrow.source, target=arrow.target, events=arrow.events, implied=arrow.implied)


class SpanBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One attempt of a step in time; one that runs has no end."""

    step_id: str
    attempt: int
    status: str
    started_at: str | None = None
    completed_at: str | None = None
    error: Failure | None = None

    @classmethod
    def of(cls, span: Span) -> "SpanBody":
        attempt = span.attempt
        return cls(
            step_id=span.step_id,
            attempt=attempt.logical_attempt_id,
            status=attempt.status.value,
            started_at=attempt.started_at,
            completed_at=attempt.completed_at,
            error=attempt.error,
        )


class SpansBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`next`: for `after` of the next page; null if this was the last one."""

    spans: tuple[SpanBody, ...]
    run_seq: int
    next: str | None


class InputsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    inputs: dict[str, Any]


class DifferenceBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`subject`: `plan`, `status`, `input NAME` or `step PATH`. null: not there."""

    subject: str
    left: Any
    right: Any


class ComparisonBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    left: RunBody
    right: RunBody
    differences: tuple[DifferenceBody, ...]
    # There are more than are listed.
    is_cut: bool

    @classmethod
    def of(cls, found: Comparison) -> "ComparisonBody":
        return cls(
            left=RunBody.of(found.left),
            right=RunBody.of(found.right),
            differences=tuple(
                DifferenceBody(subject=one.subject, left=one.left, right=one.right)
                for one in found.differences
            ),
            is_cut=found.is_cut,
        )


class LogBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one attempt of a step wrote. `step`: its path, with `~` in the place of `/`."""

    step: str
    attempt: int
    stream: str
    size_bytes: int
    # When it was last written to.
    modified_at: str

    @classmethod
    def of(cls, log: StoredLog) -> "LogBody":
        step, attempt, kind = log.name
        return cls(
            step=step,
            attempt=attempt,
            stream=STREAM_OF[kind],
            size_bytes=log.size,
            modified_at=timestamp(datetime.fromtimestamp(log.modified, UTC)),
        )


class LogsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    logs: tuple[LogBody, ...]


class MatchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    step: str
    attempt: int
    stream: str
    line: int
    text: str

    @classmethod
    def of(cls, match: LogMatch) -> "MatchBody":
        return cls(**match._asdict())


class MatchesBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`isCut`: there are more than are listed."""

    matches: tuple[MatchBody, ...]
    is_cut: bool


class ArtifactBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A file that a step has left."""

    name: str
    step_id: str
    kind: str
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: str | None = None

    @classmethod
    def of(cls, found: RunArtifact) -> "ArtifactBody":
        ref = found.ref
        return cls(
            name=found.name,
            step_id=found.step_id,
            kind=ref.kind,
            sha256=ref.sha256,
            size_bytes=ref.size_bytes,
            expires_at=ref.expires_at,
        )


class ArtifactsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    artifacts: tuple[ArtifactBody, ...]
