"""The state of a run: a tree of visits and scopes. Nothing is decided here.

A *visit* is one execution of a step; a *scope* is one running body: the workflow's list, an iteration, a
pass, a branch. The tree is the only source of truth. `waits` (see `machine.py`) is an index that can be
rebuilt from it at any moment.
"""

from enum import IntEnum, auto
from typing import Any, Final

import msgspec

from podium.log.times import Timestamp
from podium.machine.accounts import RUN_PATH, BudgetAccount
from podium.machine.commands import Answers, Question
from podium.machine.flow import Event
from podium.machine.program import NO_STEPS, BlockProgram, Node, WorkflowProgram, run_node
from podium.plan.changes import StepChange


class Phase(IntEnum):
    """What a visit is waiting for; the table is in `commands.py`."""

    NEW = auto()  # the agenda; before `when`
    READY = auto()  # the agenda; before the body
    AWAITING_BUDGET = auto()  # its turn in the budget queue; before the body
    PROBE = auto()  # an answer for `when`
    COND = auto()  # an answer for the condition of a loop
    RUN = auto()  # the outcome of a task
    BACKOFF = auto()  # the delay before the next try
    INTERVAL = auto()  # the pause between two passes
    ASK = auto()  # a person: approval
    HELD = auto()  # a person: the operator window after the last try
    DOUBT = auto()  # a person: did it take effect?
    OPEN = auto()  # its child scopes
    SETTLED = auto()  # it has its outcome; routing is on the agenda
    DONE = auto()  # it has left the tree


# Constants for checks that run for every event: up to Python 3.11, an attribute of an enum takes as long as a
# call.
NEW: Final = Phase.NEW
READY: Final = Phase.READY
RUN: Final = Phase.RUN
INTERVAL: Final = Phase.INTERVAL
OPEN: Final = Phase.OPEN
SETTLED: Final = Phase.SETTLED
DONE: Final = Phase.DONE


class Result(msgspec.Struct, omit_defaults=True):
    """The result of the newest visit of a step, with the fields that references read."""

    status: str
    exit_code: int | None
    attempts: int
    visits: int
    timed_out: bool = False
    # By the names that references use.
    facts: dict[str, Any] | None = None
    inner: "InnerResults | None" = None


class Iteration(msgspec.Struct, omit_defaults=True):
    """A finished item or pass of a loop."""

    index: int
    item: Any
    status: str
    steps: dict[str, Result]


class InnerResults(msgspec.Struct, omit_defaults=True):
    """Results of the steps inside a composite. Unset: a composite of this kind has none, or no reference reads them."""

    steps: dict[str, Result] | msgspec.UnsetType = msgspec.UNSET
    branches: dict[str, Result] | msgspec.UnsetType = msgspec.UNSET
    iterations: dict[int, Iteration] | msgspec.UnsetType = msgspec.UNSET
    last: dict[str, Result] | msgspec.UnsetType | None = msgspec.UNSET


class Outcome(msgspec.Struct, omit_defaults=True):
    """How a visit ended: the event that is routed, and what goes into its result."""

    event: Event
    exit_code: int
    error: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None
    inner: InnerResults | None = None
    reason: str = ""


class Verdict(msgspec.Struct, omit_defaults=True):
    """What a scope or a workflow ends with; certain before everything inside has stopped."""

    # completed, failed, skipped, cancelled, timeout
    status: str
    exit_code: int = 0
    reason: str = ""
    error: str | None = None
    # The error code of the failure, for the log.
    code: str = ""


class _VisitPlace:
    """A visit's place in the plan and in the tree."""

    __slots__ = ("node", "scope")

    node: Node
    scope: "Scope"


class Visit(_VisitPlace, msgspec.Struct, eq=False, omit_defaults=True):
    path: str
    attempt: int
    tries: int = 1
    phase: Phase = NEW
    # Tasks only: StepStarted is in the log.
    started: bool = False
    # Tasks only: the command was handed out, so stopping it means waiting for its answer.
    handed: bool = False
    stopping: bool = False
    stop_code: str = ""
    # None for a settled visit that a reopened run routes again: its result is in the scope.
    outcome: Outcome | None = None
    # Composites only: certain, though something inside may still be running.
    verdict: Verdict | None = None
    # The key in `waits` of what it waits for, if that is a single thing.
    wait: str | tuple[str | int, ...] | None = None
    due: Timestamp | None = None
    limit: str | None = None
    limit_due: Timestamp | None = None
    # How long the run had been held when the limit was armed.
    limit_held: float = 0.0
    # Numbers the timers and probes of a visit, because a key is used once.
    counter: int = 0
    questions: tuple[Question, ...] = ()
    answers: Answers | None = None
    values: list[tuple[tuple[str | int, ...], Any]] | None = None
    # Tasks only: how signals have changed the step, as of its launch.
    change: StepChange | None = None
    # The step to go to once everything inside has closed.
    goto: str | None = None
    loop: "Loop | None" = None
    call: "WorkflowState | None" = None
    # What a reopened run continues, if this visit fails or is stopped.
    unfinished: "Unfinished | None" = None
    scopes: "dict[int, Scope]" = {}

    @property
    def is_root(self) -> bool:
        """Whether it is the run itself."""
        return self.scope.owner is self

    @property
    def workflow(self) -> "WorkflowState":
        """For the run, and for an open call."""
        if self.call is None:
            raise LookupError(f"{self.path!r} is not an open call")
        return self.call

    @property
    def progress(self) -> "Loop":
        """For an open loop, block or branches."""
        if self.loop is None:
            raise LookupError(f"{self.path!r} is not an open composite")
        return self.loop


class Unfinished(msgspec.Struct, omit_defaults=True):
    """What is kept of a visit that failed or was stopped; see `unfinished.py`."""

    # The lists inside that failed or were stopped; those that completed are done and not kept.
    scopes: "dict[int, Scope]" = {}
    # for_each only: how each list ended, and the list itself, packed.
    items: dict[int, tuple[str, msgspec.Raw]] = {}
    # The phase in which it was stopped. None: it ended by itself.
    phase: Phase | None = None
    # How it ended although it was being stopped.
    outcome: Outcome | None = None
    # What was spent of its own budget.
    account: BudgetAccount | None = None
    # Calls only: the context at its verdict. `_error` and `finally` may have changed it since.
    context: dict[str, Any] | None = None


class _Items:
    __slots__ = ("items",)

    items: list[Any]


class Loop(_Items, msgspec.Struct, omit_defaults=True):
    """The progress of a loop. A finished iteration is only counted, unless a reference reads it later."""

    total: int
    started_at: Timestamp
    # The items, unless they follow from the plan and the inputs.
    own_items: list[Any] | None = None
    # The next item or pass.
    index: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    # No more items are started: after a break, or once the join is decided.
    stopped: bool = False
    exit_reason: str = ""
    # A fill or a check is on the agenda.
    pending: bool = False
    iterations: dict[int, Iteration] = {}
    last: dict[str, Result] | None = None
    last_index: int = 0
    branches: dict[str, Result] = {}
    # In a reopened run: items and branches that failed or were stopped and still have to be continued.
    again: list[int] = []
    # The first pass that counts towards `max_iterations`: a reopened loop that had reached it gets as many
    # again.
    first_counted: int = 0


class Stage(IntEnum):
    MAIN = auto()
    ERROR = auto()
    FINALLY = auto()
    END = auto()


class _Called:
    __slots__ = ("program",)

    program: WorkflowProgram


class WorkflowState(_Called, msgspec.Struct, omit_defaults=True):
    """A workflow being executed: the run, or a call."""

    inputs: dict[str, Any]
    context: dict[str, Any]
    stage: Stage = Stage.MAIN
    verdict: Verdict | None = None
    aimed_at_error: bool = False
    # Its main list has completed, whatever happened to the workflow after that.
    main_completed: bool = False
    # Stopped by force: neither `_error` nor `finally` is started.
    no_more: bool = False
    # Attempts of `_error` and `finally` that are in the log already, by scope: a reopened run starts them
    # again.
    spent: dict[int, dict[int, int]] = {}
    # The results of the workflow's main list, for `_error` and `finally`.
    main_results: dict[str, Result] = {}


class _ScopePlace:
    """A scope's place in the plan and in the tree, and its item."""

    __slots__ = ("block", "item", "owner")

    owner: Visit
    block: BlockProgram
    item: Any


class Scope(_ScopePlace, msgspec.Struct, eq=False, omit_defaults=True):
    prefix: str
    # Which iteration, pass or branch of its owner.
    index: int
    # By the index of their step; a step has at most one live visit in a scope.
    live: dict[int, Visit] = {}
    results: dict[str, Result] = {}
    attempts: dict[int, int] = {}
    visits: dict[int, int] = {}
    gotos: int = 0
    # The step that left last: a reopened run starts there, if nothing else is live.
    cause: int = -1
    # The `goto` target of that step, if it was a loop that was left by one.
    cause_goto: str | None = None
    verdict: Verdict | None = None
    stopping: bool = False
    # Steps that an operator wants to skip before they are reached.
    skips: list[int] = []
    # In a `finally` that is continued: steps that keep their outcome and are passed over.
    kept: list[int] | None = None
    # Passes only: a step failed and the next one ran nevertheless.
    failed_unhandled: bool = False
    graph: "GraphState | None" = None
    # Visits that have left and that a reopened run continues: composites that failed, and those that were
    # stopped.
    left: dict[int, Visit] | None = None


class GraphState(msgspec.Struct, omit_defaults=True):
    """The progress of a graph: for each step the number of open dependencies, and how many dependencies
    failed.
    """

    unmet: list[int]
    failed: list[int]
    states: bytearray
    # Steps that have not ended.
    open: int
    failures: int = 0
    # Failures after which nothing new is started.
    stop_failures: int = 0
    held_back: list[int] = []
    # Messages of the steps that failed, by their index.
    messages: dict[int, str] = {}


def new_visit(scope: Scope, node: Node, attempt: int) -> Visit:
    visit = Visit(scope.prefix + node.step_id, attempt)
    visit.scope = scope
    visit.node = node
    return visit


def new_root(program: WorkflowProgram) -> Visit:
    root = Visit(RUN_PATH, 1)
    place_root(root, program)
    return root


def place_root(root: Visit, program: WorkflowProgram) -> None:
    """The run itself: it is in a list of its own and so has everything that a call has."""
    root.scope = new_scope(root, NO_STEPS, "", 0)
    root.node = run_node(program)


def new_scope(owner: Visit, block: BlockProgram, prefix: str, index: int, item: Any = None) -> Scope:
    scope = Scope(prefix, index)
    scope.owner = owner
    scope.block = block
    scope.item = item
    return scope


def new_loop(started_at: Timestamp, *, total: int = 0) -> Loop:
    loop = Loop(total, started_at)
    loop.items = []
    return loop


def new_call(program: WorkflowProgram, inputs: dict[str, Any]) -> WorkflowState:
    call = WorkflowState(inputs, dict(program.workflow.context))
    call.program = program
    return call


def new_graph(block: BlockProgram) -> GraphState:
    steps = len(block.nodes)
    return GraphState(list(block.needs), [0] * steps, bytearray(steps), steps)


def status_of(scope: Scope) -> str:
    """How a list ended: completed, skipped, failed, or cancelled if it was stopped."""
    verdict = scope.verdict
    if verdict is None:
        return "cancelled"
    return "failed" if verdict.status in ("failed", "timeout") else verdict.status


def prefix_of(visit: Visit) -> str:
    """The prefix of all paths below a composite, which marks its further visits and attempts."""
    return visit.path if visit.attempt == 1 else f"{visit.path}#{visit.attempt}"
