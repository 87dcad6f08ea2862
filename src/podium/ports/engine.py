"""Engines: what drives a run. They contain no rules about workflows; the machine decides.

`WorkflowEngine` is for callers that do not wait: it starts runs elsewhere and answers questions about them.
`Engine` is for a caller that watches a run to its end, such as `podium run`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from podium.log.engines import EngineRunRef
from podium.log.events import EventRecord
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT, DEFAULT_TENANT, RunId
from podium.log.payloads import RetriedBy, SignedBy
from podium.log.plan_refs import PlanRef
from podium.log.runs import Backpressure
from podium.log.snapshots import RunStatusSnapshot
from podium.log.times import Timestamp
from podium.plan.plan import Plan

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.access.audit import AuditDraft
    from podium.machine.progress import Progress

Observer = Callable[[Sequence[EventRecord]], None]


class EnvFiles(msgspec.Struct, frozen=True):
    """What is stored about the environment files of a run: facts for the log, and the key of their digests
    beside it.
    """

    facts: tuple[dict[str, Any], ...]
    key: bytes

    def __repr__(self) -> str:
        """Omits the key."""
        return f"EnvFiles(facts={self.facts!r})"


class RunRequest(msgspec.Struct, frozen=True):
    """A request to run a plan."""

    plan: Plan
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    run_id: str | None = None
    # The text that was compiled, to be stored with the run.
    source: bytes = b""
    workspace: Path = Path()
    tenant_id: str = DEFAULT_TENANT
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    # The run whose earlier results this one reuses.
    original_run_id: str | None = None
    # The first step to be executed again; everything before it is reused.
    rerun_from: str | None = None
    # Reuse every completed step whose inputs are the same.
    only_changed: bool = False
    # Only for a run that a RETRY_RUN requested.
    retried_by: RetriedBy | None = None
    env_files: EnvFiles | None = None
    # Only for a run of another engine: where it is, and what that engine stores with it.
    engine: EngineRunRef | None = None
    engine_facts: dict[str, Any] = msgspec.field(default_factory=dict)
    # Only for a published plan: where it is, and its bytes as they were fetched and verified.
    plan_ref: PlanRef | None = None
    plan_content: bytes | None = None
    # A file of signatures of the plan; and who has signed it, once that is known.
    signatures: bytes | None = None
    signed_by: tuple[SignedBy, ...] = ()
    # May also be set if the plan does not require it.
    needs_approval: bool = False
    # Only for a published plan: who approved it, with its hash. Then its runs need no approval.
    plan_approved_by: str | None = None
    # Chosen by the caller: a second request with the same id is the same run, or is refused if it differs.
    run_request_id: str | None = None
    # These replace those of the plan.
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    # The pool whose workers execute it.
    pool: str | None = None
    # For finding the run again.
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    # Replaces that of the plan.
    priority: int | None = None
    # For a run in a pool: what happens if a limit is reached; DELAY: not before this moment.
    backpressure: Backpressure = Backpressure.QUEUE
    start_at: Timestamp | None = None
    # The decision that allowed it; recorded together with the run.
    audit: "tuple[AuditDraft, ...]" = ()

    def on(self, run_id: str, engine: EngineRunRef, facts: dict[str, Any]) -> "RunRequest":
        """The same request for another engine."""
        return msgspec.structs.replace(self, run_id=run_id, engine=engine, engine_facts=facts)


# Not an event: the run is open, and this process has left it to a later one.
LEFT: Final = "RunLeft"
# The exit code of a process that has left a run.
RESUMABLE: Final = 5


class RunEnded(msgspec.Struct, frozen=True):
    """How a run ended: its last event, and the exit code of the process that waited for it."""

    run_id: RunId
    event_type: str
    exit_code: int
    reason: str
    error: str
    # Code of the error, for example TIMEOUT; empty if there is none.
    error_code: str = ""


class Notice(msgspec.Struct, frozen=True):
    """Something that a watching person should know and that is not in the log: what this process waits for."""

    # A notice replaces the previous one with the same subject.
    subject: str
    text: str
    is_over: bool = False


class EngineTrouble(msgspec.Struct, frozen=True):
    """A problem that keeps a run of another engine from continuing."""

    # worker, server, execution or attempt.
    kind: str
    subject: str
    text: str
    # A command that helps, if there is one.
    command: str = ""


class RunContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which run is to be started, and for whom."""

    tenant_id: str = DEFAULT_TENANT
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    run_id: str
    # `any` is resolved before an engine is called.
    target_adapter: str
    # Only for a run that is not in the store yet.
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    # A file of signatures of the plan; without it, those that were published beside the plan.
    signatures: bytes | None = None


class SignalRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    # A UUID chosen by the caller: repeated requests with the same id and content are one signal.
    signal_id: str
    signal_type: str
    payload: dict[str, Any] = msgspec.field(default_factory=dict)


class WorkflowEngine(Protocol):
    """Tenant, project, environment and plan of a run come from the store, by the run id of the reference."""

    async def start_run(self, plan_ref: PlanRef, context: RunContext) -> EngineRunRef:
        """Start a run of a published plan; one that is already in the store is not created or started again."""
        ...

    async def cancel_run(self, engine_run_ref: EngineRunRef) -> None:
        """Request its end, which is recorded when its work has stopped. Has no effect on a run that has
        ended.
        """
        ...

    async def get_run_status(self, engine_run_ref: EngineRunRef) -> RunStatusSnapshot: ...

    async def signal(self, engine_run_ref: EngineRunRef, request: SignalRequest) -> None:
        """Store a signal, then notify the run."""
        ...


class Driving(Protocol):
    """A run that this process is driving."""

    def cancel(self, reason: str, *, force: bool = False, by: "Actor | None" = None) -> None:
        """`by`: who requested it; recorded with the signal."""
        ...


class Engine(Protocol):
    """Drives or follows a run while the caller watches."""

    @property
    def provider(self) -> str:
        """Its name, as it appears in the rows of its runs."""
        ...

    async def create(self, request: RunRequest, *, notify: Callable[[Notice], None] | None = None) -> RunId:
        """Create a run without starting it."""
        ...

    async def begin(self, run_id: RunId) -> bool:
        """Let a run start without this process. False if this engine cannot: then it has to be driven."""
        ...

    async def drive(
        self,
        run_id: RunId,
        *,
        observers: Sequence[Observer] = (),
        on_driving: Callable[[Driving], None] | None = None,
        reopen: int | None = None,
        was_open: bool = False,
        no_wait: bool = False,
        lock_wait: float | None = None,
        notify: Callable[[Notice], None] | None = None,
        check: bool = True,
        on_waiting: "Callable[[Progress], None] | None" = None,
    ) -> RunEnded:
        """Drive a run to its end. Raises `RunLocked` if another process drives it, or has ended it.

        `reopen`: the `runSeq` of the end that the caller wants to undo; a run whose last end is a different
        one is not reopened. `was_open`: the caller saw it open, so if it has ended by now, another process
        did that. `lock_wait`: how many seconds to wait for another process; by default the engine's own
        limit. `on_waiting` is called with everything that the run waits for, whenever that may have changed.
        `check`: refuse a run that has started if something that its plan needs is missing here.

        `on_driving` is called as soon as this process owns the run, before anything in it is changed.
        `no_wait`: return `LEFT` as soon as only a person can make progress (approval, hold).
        """
        ...
