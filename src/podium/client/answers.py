"""What the server answers about plans and runs. Unknown fields are ignored, so a newer server is understood.

Times are texts of ISO 8601 in UTC, as everywhere in Podium.
"""

from typing import Any

import msgspec


class Me(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who the token belongs to. `operations`: what they may do, by name. `projects` empty: all."""

    actor: str
    method: str
    tenant_id: str
    roles: tuple[str, ...]
    projects: tuple[str, ...]
    expires_at: str | None
    operations: dict[str, bool]


# --- plans --------------------------------------------------------------------------------------------


class Validation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is wrong with a workflow; warnings, too. `plan_id`, `plan_version` and `sha256` of a valid one."""

    valid: bool
    diagnostics: tuple[dict[str, Any], ...]
    omitted: int
    plan_id: str | None = None
    plan_version: str | None = None
    sha256: str | None = None


class PublishedPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    plan_id: str
    plan_version: str
    sha256: str
    schema_version: str
    size_bytes: int
    name: str
    published_at: str
    published_by: str
    approved_at: str | None = None
    approved_by: str | None = None

    @property
    def ref(self) -> str:
        """As `start` takes it."""
        return f"{self.plan_id}@{self.plan_version}"


class PlanPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cursor`: of the next page; None if this was the last one."""

    plans: tuple[PublishedPlan, ...]
    cursor: str | None


# --- runs ---------------------------------------------------------------------------------------------


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    category: str = ""
    code: str = ""
    message: str = ""
    retryable: bool = False
    retry_after_ms: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`run_seq`: the number of its newest event."""

    run_id: str
    status: str
    plan_id: str
    plan_version: str
    plan_sha256: str
    project: str
    environment: str
    run_seq: int
    run_request_id: str
    created_at: str
    updated_at: str
    priority: int = 0
    pool: str | None = None
    concurrency_key: str | None = None
    start_at: str | None = None
    needs_approval: bool = False
    labels: dict[str, str] = {}


class RunDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`summary`: counts of steps, times, failure and cost, as `podium runs show --json` prints them."""

    run: Run
    summary: dict[str, Any]
    run_seq: int


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a list shows of the steps of a run, as of the event `run_seq`."""

    run_seq: int
    steps: int
    running_steps: int = 0
    succeeded_steps: int = 0
    failed_steps: int = 0
    skipped_steps: int = 0
    started_at: str | None = None
    completed_at: str | None = None
    failure: Failure | None = None
    usage: dict[str, float] = {}


class RunPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Newest first. `cursor`: of the next page, None if this was the last one; a page may be short.

    `summaries`: by run id. `stale`: they are more than five seconds behind the log.
    """

    runs: tuple[Run, ...]
    cursor: str | None
    summaries: dict[str, RunSummary]
    stale: bool


class Submitted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`outcome`: created, duplicate, queued (`position`) or delayed. `limit`: the one that is reached."""

    run_id: str
    outcome: str
    run: Run
    run_seq: int
    position: int | None = None
    limit: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    run_seq: int
    event_id: str
    event_type: str
    emitted_at: str
    persisted_at: str
    logical_attempt_id: int
    payload: dict[str, Any]
    engine_attempt_id: int = 1
    idempotency_key: str = ""
    step_id: str | None = None


class EventPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`next`: for `after` of the next page; None at the end of the log."""

    events: tuple[Event, ...]
    run_seq: int
    next: int | None


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`newest`: its newest attempt; `earlier`: up to nine before it, newest first."""

    step_id: str
    status: str
    attempts: int
    newest: dict[str, Any]
    earlier: tuple[dict[str, Any], ...] = ()
    usage: dict[str, float] = {}


class StepPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """By path. `next`: for `after` of the next page; None if this was the last one."""

    steps: tuple[Step, ...]
    run_seq: int
    next: str | None


class Inputs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    inputs: dict[str, Any]


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """About a signal that was accepted. `new_run_id`: of RETRY_RUN."""

    run_id: str
    signal_id: str
    signal_type: str
    decision: str
    duplicate: bool
    run_status: str
    run_seq: int
    new_run_id: str | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    command: str
    meaning: str


class Reason(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a run waits for, until when, and the commands that change it."""

    kind: str
    subject: str
    text: str
    deadline: str | None
    next: str
    commands: tuple[Command, ...] = ()


class Why(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`driven`: whether a worker has the run; None if it has ended."""

    run_id: str
    status: str
    substatus: str | None
    waits_for: tuple[Reason, ...]
    run_seq: int
    driven: bool | None = None
    if_resumed: tuple[Reason, ...] = ()


class StepReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    step: str
    status: str
    attempts: str
    error: str | None = None
    usage: dict[str, float] = {}


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run went."""

    run_id: str
    plan_id: str
    status: str
    created_at: str
    usage: dict[str, float]
    steps: tuple[StepReport, ...]


class LogFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one attempt of a step wrote. `step`: its path, with `~` in the place of `/`."""

    step: str
    attempt: int
    stream: str
    size_bytes: int
    modified_at: str = ""


class LogFiles(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    logs: tuple[LogFile, ...]


class Artifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that a step has left."""

    name: str
    step_id: str
    kind: str
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: str | None = None


class Artifacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    artifacts: tuple[Artifact, ...]
