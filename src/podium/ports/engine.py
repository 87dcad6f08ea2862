"""Engines: what drives a run. They hold no rule about workflows; the machine decides.

`WorkflowEngine` is for callers that do not wait: it starts runs elsewhere and is asked about them. `Engine`
is for a caller that watches a run to its end, such as `podium run`.
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
from podium.machine.obligations import Obligation
from podium.plan.plan import Plan

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.access.audit import AuditDraft

Observer = Callable[[Sequence[EventRecord]], None]


class EnvFiles(msgspec.Struct, frozen=True):
    """What is kept of the environment files of a run: facts for the log, and the key of their digests beside it."""

    facts: tuple[dict[str, Any], ...]
    key: bytes

    def __repr__(self) -> str:
        """Without the key."""
        return f"EnvFiles(facts={self.facts!r})"


class RunRequest(msgspec.Struct, frozen=True):
    """A wish for a run of a plan."""

    plan: Plan
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    run_id: str | None = None
    # What was compiled, to be kept with the run.
    source: bytes = b""
    workspace: Path = Path()
    tenant_id: str = DEFAULT_TENANT
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    # The run whose earlier results this one takes over.
    original_run_id: str | None = None
    # The step from which on everything is carried out again.
    rerun_from: str | None = None
    # Take over whatever has completed and would be carried out with the same inputs.
    only_changed: bool = False
    # Of a run that a RETRY_RUN asked for.
    retried_by: RetriedBy | None = None
    env_files: EnvFiles | None = None
    # Of a run that another engine carries: where, and what that engine keeps beside it.
    engine: EngineRunRef | None = None
    engine_facts: dict[str, Any] = msgspec.field(default_factory=dict)
    # Of a plan that was published: where it is, and its bytes as they were fetched and verified.
    plan_ref: PlanRef | None = None
    plan_content: bytes | None = None
    # A file of signatures of the plan; and who has signed it, once that is known.
    signatures: bytes | None = None
    signed_by: tuple[SignedBy, ...] = ()
    # Also if its plan does not ask for it.
    needs_approval: bool = False
    # Of a published plan: who approved it, with its hash. Then no run of it has to be approved.
    plan_approved_by: str | None = None
    # Of the caller: a second request with the same one is the same run, or is refused if it asks for something else.
    run_request_id: str | None = None
    # Instead of those that the plan names.
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    # Whose hosts carry it.
    pool: str | None = None
    # By which people find the run again.
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    # Instead of that of the plan.
    priority: int | None = None
    # Of a run in a pool: what becomes of it if a limit is reached; DELAY: not before this moment.
    backpressure: Backpressure = Backpressure.QUEUE
    start_at: Timestamp | None = None
    # That it was allowed; recorded together with the run.
    audit: "tuple[AuditDraft, ...]" = ()

    def on(self, run_id: str, engine: EngineRunRef, facts: dict[str, Any]) -> "RunRequest":
        """The same on another engine."""
        return msgspec.structs.replace(self, run_id=run_id, engine=engine, engine_facts=facts)


# Not an event: the run is open, and this process has left it to whoever takes it up.
LEFT: Final = "RunLeft"
# The exit code of who has left a run.
RESUMABLE: Final = 5


class RunEnded(msgspec.Struct, frozen=True):
    """How a run ended: its last event, and the exit code of the process that waited for it."""

    run_id: RunId
    event_type: str
    exit_code: int
    reason: str
    error: str
    # Of the error, for example TIMEOUT; empty if there is none.
    error_code: str = ""


class Notice(msgspec.Struct, frozen=True):
    """Something that a person who watches should know and that is not in the log: what this process waits for."""

    # Notices of one subject replace one another.
    subject: str
    text: str
    is_over: bool = False


class EngineTrouble(msgspec.Struct, frozen=True):
    """What keeps a run of another engine from continuing."""

    # worker, server, execution or attempt.
    kind: str
    subject: str
    text: str
    # What a person can call about it, if anything.
    command: str = ""


class RunContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which run is to be started, and for whom."""

    tenant_id: str = DEFAULT_TENANT
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    run_id: str
    # `any` is resolved before an engine is asked.
    target_adapter: str
    # Of a run that is not in the store yet.
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    # A file of signatures of the plan; without it, those that were published beside the plan.
    signatures: bytes | None = None


class SignalRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    # A UUID of the caller: the same one with the same content is one signal, however often it is sent.
    signal_id: str
    signal_type: str
    payload: dict[str, Any] = msgspec.field(default_factory=dict)


class WorkflowEngine(Protocol):
    """Tenant, project, environment and plan of a run come from the store, by the run id of the reference."""

    async def start_run(self, plan_ref: PlanRef, context: RunContext) -> EngineRunRef:
        """Start a run of a published plan; one that is in the store already is not created or started again."""
        ...

    async def cancel_run(self, engine_run_ref: EngineRunRef) -> None:
        """Ask for its end, which is recorded when its work has stopped. Nothing happens to a run that has ended."""
        ...

    async def get_run_status(self, engine_run_ref: EngineRunRef) -> RunStatusSnapshot: ...

    async def signal(self, engine_run_ref: EngineRunRef, request: SignalRequest) -> None:
        """Store a signal, then let the run know."""
        ...


class Driving(Protocol):
    """A run under way in this process."""

    def cancel(self, reason: str, *, force: bool = False, by: "Actor | None" = None) -> None:
        """`by`: who asks for it; recorded with the signal."""
        ...


class Engine(Protocol):
    """Drives a run, or follows it, while the caller watches."""

    @property
    def provider(self) -> str:
        """Its name, as it is in the rows of its runs."""
        ...

    async def create(self, request: RunRequest, *, notify: Callable[[Notice], None] | None = None) -> RunId:
        """Make a run; nothing of it starts."""
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
        on_waiting: Callable[[Sequence[Obligation]], None] | None = None,
    ) -> RunEnded:
        """Drive a run to its end. Raises `RunLocked` if another process drives it, or has ended it.

        `reopen`: the `runSeq` of the end that the caller wants to be undone; a run whose last end is another one is
        not reopened. `was_open`: the caller saw it open, so an end that it has by now is another process's.
        `lock_wait`: how many seconds to wait for another process; by default the engine's own patience.
        `on_waiting` is called with all that the run waits for, whenever that may have changed.
        `check`: refuse a run that has started if something that its plan needs is missing here.

        `on_driving` is called as soon as the run is this process's, before anything of it is touched.
        `no_wait`: not longer than something happens in it; who has left it at a person's turn, or held, says `LEFT`.
        """
        ...
