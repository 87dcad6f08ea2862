"""The state of a run: a tree of visits and scopes. Nothing is decided here.

A *visit* is one step being carried out once; a *scope* is one running body: the workflow's list, an iteration, a pass,
a branch. The tree is the only truth. `waits` (see `machine.py`) is an index that can be rebuilt from it at any moment.
"""

from enum import IntEnum, auto
from typing import Any, Final

from podium.log.times import Timestamp
from podium.machine.commands import Question
from podium.machine.flow import Event
from podium.machine.program import NO_STEPS, BlockProgram, Node, WorkflowProgram
from podium.plan.changes import StepChange


class Phase(IntEnum):
    """What a visit is waiting for; the table is in `commands.py`."""

    NEW = auto()  # the agenda; before `when`
    READY = auto()  # the agenda; before the body
    AWAITING_BUDGET = auto()  # its turn in the line for money; before the body
    PROBE = auto()  # an answer for `when`
    COND = auto()  # an answer for the condition of a loop
    RUN = auto()  # the outcome of a task
    BACKOFF = auto()  # the delay before the next try
    INTERVAL = auto()  # the pause between two passes
    ASK = auto()  # a person: approval
    HELD = auto()  # a person: the operator window after the last try
    DOUBT = auto()  # a person: did it happen?
    OPEN = auto()  # its child scopes
    SETTLED = auto()  # it has its outcome; routing is on the agenda
    DONE = auto()  # it has left the tree


# For what is asked of every event: up to Python 3.11, an attribute of an enum takes as long as a call.
NEW: Final = Phase.NEW
READY: Final = Phase.READY
RUN: Final = Phase.RUN
INTERVAL: Final = Phase.INTERVAL
OPEN: Final = Phase.OPEN
SETTLED: Final = Phase.SETTLED
DONE: Final = Phase.DONE


class Result:
    """What came of the newest visit of a step: as much of it as somebody may read."""

    __slots__ = ("attempts", "exit_code", "fields", "status", "timed_out", "visits")

    def __init__(
        self, status: str, exit_code: int | None, attempts: int, visits: int, *, timed_out: bool = False
    ) -> None:
        self.status = status
        self.exit_code = exit_code
        self.attempts = attempts
        self.visits = visits
        self.timed_out = timed_out
        self.fields: dict[str, Any] | None = None


class Outcome:
    """How a visit ended: the event that is routed, and what goes into its result."""

    __slots__ = ("error", "event", "exit_code", "fields", "reason")

    def __init__(
        self,
        event: Event,
        exit_code: int,
        *,
        error: dict[str, Any] | None = None,
        fields: dict[str, Any] | None = None,
        reason: str = "",
    ) -> None:
        self.event: Event = event
        self.exit_code = exit_code
        self.error = error
        self.fields = fields
        self.reason = reason


class Verdict:
    """What a scope or a workflow ends with; certain before everything inside has stopped."""

    __slots__ = ("code", "error", "exit_code", "reason", "status")

    def __init__(
        self, status: str, exit_code: int = 0, reason: str = "", error: str | None = None, code: str = ""
    ) -> None:
        # completed, failed, skipped, cancelled, timeout
        self.status = status
        self.exit_code = exit_code
        self.reason = reason
        self.error = error
        # The code of the failure, for the log.
        self.code = code


class Visit:
    __slots__ = (
        "answers", "attempt", "call", "change", "counter", "due", "goto", "handed", "limit", "limit_due", "limit_held",
        "loop", "node", "outcome", "path", "phase", "questions", "scope", "scopes", "started", "stop_code", "stopping",
        "tries", "unfinished", "values", "verdict", "wait",
    )  # fmt: skip

    def __init__(self, scope: "Scope | None", node: Node, path: str, attempt: int) -> None:
        """Without a `scope`: the run itself, which is in a list of its own and so has everything that a call has."""
        self.scope: Scope = scope if scope is not None else Scope(self, NO_STEPS, "", 0)
        self.node = node
        self.path = path
        self.attempt = attempt
        self.tries = 1
        self.phase: Phase = NEW
        # Of a task: StepStarted is in the log.
        self.started = False
        # Of a task: the command was handed out, so that stopping it means waiting for its answer.
        self.handed = False
        self.stopping = False
        self.stop_code = ""
        # None of a settled visit: a reopened run routes it again, and its result is in the scope.
        self.outcome: Outcome | None = None
        # Of a composite: certain, though something inside may still be running.
        self.verdict: Verdict | None = None
        # The key in `waits` of what it waits for, if that is one thing.
        self.wait: Any = None
        self.due: Timestamp | None = None
        self.limit: str | None = None
        self.limit_due: Timestamp | None = None
        # How long the run had been held when the limit was armed.
        self.limit_held = 0.0
        # Timers and probes of a visit are numbered: a key is used once.
        self.counter = 0
        self.questions: tuple[Question, ...] = ()
        self.answers: dict[Question, bool] | None = None
        self.values: dict[tuple[str | int, ...], Any] | None = None
        # Of a task: what a signal has changed in the step, as of its launch.
        self.change: StepChange | None = None
        # The step to go to once everything inside has closed.
        self.goto: str | None = None
        self.scopes: dict[int, Scope] = {}
        self.loop: Loop | None = None
        self.call: WorkflowState | None = None
        # What a reopened run continues, if this fails or is stopped.
        self.unfinished: Unfinished | None = None

    @property
    def is_root(self) -> bool:
        """Whether it is the run itself."""
        return self.scope.owner is self

    @property
    def workflow(self) -> "WorkflowState":
        """Of the run, and of a call that is open."""
        if self.call is None:
            raise LookupError(f"{self.path!r} is not an open call")
        return self.call

    @property
    def progress(self) -> "Loop":
        """Of a loop, a block or branches that are open."""
        if self.loop is None:
            raise LookupError(f"{self.path!r} is not an open composite")
        return self.loop


class Unfinished:
    """What is kept of a visit that failed or was stopped; see `unfinished.py`."""

    __slots__ = ("account", "context", "items", "outcome", "phase", "scopes")

    def __init__(self) -> None:
        # The lists inside that failed or were stopped; those that completed are done and not kept.
        self.scopes: dict[int, Scope] = {}
        # Those of a for_each: how each ended, and the list itself, packed.
        self.items: dict[int, tuple[str, str]] = {}
        # The phase in which it was stopped. None: it ended by itself.
        self.phase: Phase | None = None
        # How it ended although it was being stopped.
        self.outcome: Outcome | None = None
        # What was spent of its own budget.
        self.account: Any = None
        # Of a call: the context at its verdict. `_error` and `finally` may have changed it since.
        self.context: dict[str, Any] | None = None


class Loop:
    """How far a loop has come. A finished iteration is only counted, unless somebody reads it later."""

    __slots__ = (
        "again", "branches", "cancelled", "completed", "exit_reason", "failed", "first_counted", "index", "items",
        "iterations", "last", "last_index", "pending", "skipped", "started", "started_at", "stopped", "total",
    )  # fmt: skip

    def __init__(self, total: int, started_at: Timestamp) -> None:
        self.total = total
        self.items: list[Any] = []
        # The next item or pass.
        self.index = 0
        self.started = 0
        self.completed = 0
        self.failed = 0
        self.skipped = 0
        self.cancelled = 0
        self.started_at = started_at
        # No more items: a break, or a join that is decided.
        self.stopped = False
        self.exit_reason = ""
        # A fill or a check is on the agenda.
        self.pending = False
        self.iterations: dict[int, dict[str, Any]] = {}
        self.last: dict[str, Result] | None = None
        self.last_index = 0
        self.branches: dict[str, Result] = {}
        # Of a reopened run: items and branches that failed or were stopped and still have to be continued.
        self.again: list[int] = []
        # The pass from which on `max_iterations` counts: a reopened loop that had reached it gets as many again.
        self.first_counted = 0


class WorkflowState:
    """A workflow being carried out: the run, or a call."""

    __slots__ = (
        "aimed_at_error",
        "context",
        "inputs",
        "main_completed",
        "main_results",
        "no_more",
        "program",
        "spent",
        "stage",
        "verdict",
    )

    def __init__(self, program: WorkflowProgram, inputs: dict[str, Any]) -> None:
        self.program = program
        self.inputs = inputs
        self.context: dict[str, Any] = dict(program.workflow.context)
        self.stage = Stage.MAIN
        self.verdict: Verdict | None = None
        self.aimed_at_error = False
        # Its own list has completed, whatever became of the workflow after that.
        self.main_completed = False
        # Stopped by force: neither `_error` nor `finally` is started.
        self.no_more = False
        # Attempts of `_error` and `finally` that the log has already, by scope: a reopened run starts them again.
        self.spent: dict[int, dict[int, int]] = {}
        # What the workflow's own list has left, for `_error` and `finally`.
        self.main_results: dict[str, Result] = {}


class Stage(IntEnum):
    MAIN = auto()
    ERROR = auto()
    FINALLY = auto()
    END = auto()


class Scope:
    __slots__ = (
        "attempts", "block", "cause", "cause_goto", "failed_unhandled", "gotos", "graph", "index", "item", "kept",
        "left", "live", "owner", "prefix", "results", "skips", "stopping", "verdict", "visits",
    )  # fmt: skip

    def __init__(self, owner: Visit, block: BlockProgram, prefix: str, index: int) -> None:
        self.owner = owner
        self.block = block
        self.prefix = prefix
        # Which iteration, pass or branch of its owner.
        self.index = index
        self.item: Any = None
        # By the index of their step; a step has at most one live visit in a scope.
        self.live: dict[int, Visit] = {}
        self.results: dict[str, Result] = {}
        self.attempts: dict[int, int] = {}
        self.visits: dict[int, int] = {}
        self.gotos = 0
        # The step that was left last: what a reopened run starts with, if nothing else is live.
        self.cause = -1
        # Where that step led, if it was a loop that was left by `goto`.
        self.cause_goto: str | None = None
        self.verdict: Verdict | None = None
        self.stopping = False
        # Steps that an operator wants skipped before they were reached.
        self.skips: set[int] | None = None
        # Of a `finally` that is continued: steps that keep their outcome and are passed over.
        self.kept: set[int] | None = None
        # Of a pass: a step failed and the next one ran all the same.
        self.failed_unhandled = False
        self.graph: GraphState | None = None
        # Visits that have left and that a reopened run continues: composites that failed, and what was stopped.
        self.left: dict[int, Visit] | None = None


class GraphState:
    """How far a graph has come: for each step how many it waits for, and how many of those failed."""

    __slots__ = ("failed", "failures", "held_back", "messages", "open", "states", "stop_failures", "unmet")

    def __init__(self, block: BlockProgram) -> None:
        self.unmet = list(block.needs)
        self.failed = [0] * len(block.nodes)
        self.states = bytearray(len(block.nodes))
        # Steps that have not ended.
        self.open = len(block.nodes)
        self.failures = 0
        # Failures after which nothing new is started.
        self.stop_failures = 0
        self.held_back: list[int] = []
        # Of the steps that failed, by their index.
        self.messages: dict[int, str] = {}


def status_of(scope: Scope) -> str:
    """How a list ended: completed, skipped, failed, or cancelled, which means that it was stopped."""
    verdict = scope.verdict
    if verdict is None:
        return "cancelled"
    return "failed" if verdict.status in ("failed", "timeout") else verdict.status


RUN_PATH: Final = ""


def prefix_of(visit: Visit) -> str:
    """What is before the paths below a composite: its further visits and tries mark everything below."""
    return visit.path if visit.attempt == 1 else f"{visit.path}#{visit.attempt}"
