"""The current state of a run, folded from its log.

The *summary* is small and quick to load however long the run is; steps are read in pages. Everything is
immutable: a later projection is a new value, and one that is in use never changes.
"""

from typing import Any

import msgspec

from podium.log.artifacts import ArtifactRef
from podium.log.engines import EngineRunRef
from podium.log.events import RunIdentity
from podium.log.ids import RunId
from podium.log.payloads import Failure
from podium.log.runs import Run
from podium.log.times import Timestamp, moment
from podium.log.transitions import RunStatus, StepStatus


class AttemptSnapshot(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    """One attempt of a step."""

    logical_attempt_id: int
    status: StepStatus
    engine_attempt_id: int = 1
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    error: Failure | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    # Stopped by a cancel, a decided join or an interruption: does not count as a failure.
    stopped: bool = False
    warnings: tuple[str, ...] = ()


class StepSnapshot(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    """One instance of a step: its newest attempt, and up to nine before it, newest first."""

    step_id: str
    newest: AttemptSnapshot
    earlier: tuple[AttemptSnapshot, ...] = ()
    attempt_count: int = 1
    # Tokens and dollars of all its attempts and of everything inside it.
    usage: dict[str, float] = {}

    @property
    def status(self) -> StepStatus:
        return self.newest.status

    @property
    def failed(self) -> bool:
        return self.newest.status is StepStatus.FAILED and not self.newest.stopped


class Gap(msgspec.Struct, frozen=True, rename="camel"):
    """Missing sequence numbers: `last_seq` was followed by `next_seq`."""

    last_seq: int
    next_seq: int


class StepWarning(msgspec.Struct, frozen=True, rename="camel"):
    step_id: str
    text: str


class RaisedAlert(msgspec.Struct, frozen=True, rename="camel"):
    code: str
    message: str


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The state of a run, without its steps."""

    run: RunIdentity | None = None
    status: RunStatus = RunStatus.PENDING
    substatus: str | None = None
    last_event_seq: int = 0
    # Steps by the status of their newest attempt; `failed_steps` does not count those that were stopped.
    step_count: int = 0
    pending_steps: int = 0
    running_steps: int = 0
    succeeded_steps: int = 0
    skipped_steps: int = 0
    failed_steps: int = 0
    stopped_steps: int = 0
    artifact_count: int = 0
    # The first hundred of all steps; each step has its own.
    artifacts: tuple[ArtifactRef, ...] = ()
    # The first twenty of them.
    warnings: tuple[StepWarning, ...] = ()
    warning_count: int = 0
    # What operators were alerted about; the first twenty.
    alerts: tuple[RaisedAlert, ...] = ()
    alert_count: int = 0
    queued_at: Timestamp | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    engine: EngineRunRef | None = None
    failure: Failure | None = None
    # How often the run was opened: 1, and one more for each RunReopened.
    openings: int = 1
    pause_cycles: int = 0
    usage: dict[str, float] = {}
    # The log contains an event that no table allows: it was ignored, and an operator should look.
    inconsistent: bool = False
    # A gap was seen and not yet resynchronised.
    stale: Gap | None = None

    @property
    def total_duration_ms(self) -> int | None:
        if self.started_at is None or self.completed_at is None:
            return None
        passed = moment(self.completed_at) - moment(self.started_at)
        return max(0, round(passed.total_seconds() * 1000))

    def as_json(self) -> dict[str, Any]:
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


class RunStatusSnapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An engine's answer about the status of a run. It comes from the store, never from the engine's server."""

    run_id: RunId
    status: RunStatus
    # One of ours, or `<adapter>/<VALUE>` for an engine's own; shown verbatim.
    substatus: str | None = None
    message: str | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    engine_run_ref: EngineRunRef | None = None
    tenant_id: str
    project_id: str
    environment_id: str
    plan_id: str
    plan_version: str
    failed_steps: int = 0
    failure: Failure | None = None
    usage: dict[str, float] = {}
    inconsistent: bool = False
    stale: Gap | None = None


def status_snapshot(run: Run, summary: RunSummary) -> RunStatusSnapshot:
    """Built from a run's row, which has its ids, and its summary."""
    identity = run.identity
    return RunStatusSnapshot(
        run_id=identity.run_id,
        status=summary.status,
        substatus=summary.substatus,
        message=summary.failure.message if summary.failure is not None else None,
        started_at=summary.started_at,
        completed_at=summary.completed_at,
        engine_run_ref=run.engine or summary.engine,
        tenant_id=identity.tenant_id,
        project_id=identity.project_id,
        environment_id=identity.environment_id,
        plan_id=identity.plan_id,
        plan_version=identity.plan_version,
        failed_steps=summary.failed_steps,
        failure=summary.failure,
        usage=summary.usage,
        inconsistent=summary.inconsistent,
        stale=summary.stale,
    )
