"""What all rules of the machine share: the state of a run, and the ways to change it.

Rules are modules in layers. A rule calls rules of lower layers directly. Forward movement is put onto the
agenda, by name, and done later; so nothing recurses over the items of a loop. The few calls upward use
`rules`, which `machine.py` connects. So the modules do not import each other in a cycle.
"""

from collections import deque
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from podium.log.times import Timestamp, later
from podium.machine.commands import Answers, ContextReport, Record, Report, ScopeReport
from podium.machine.program import Node, WorkflowProgram
from podium.machine.spending import Spending
from podium.machine.tree import Loop, Outcome, Scope, Verdict, Visit, prefix_of
from podium.machine.values import ScopeView, Surroundings
from podium.plan.changes import StepChange
from podium.plan.plan import Call, ForEach, Group, Parallel, Plan, While

# What can be on the agenda; `layers.py` maps each operation to its function.
Operation: TypeAlias = Literal["begin", "start", "leave", "fill", "check", "pass"]


class _Aside:
    __slots__ = ("aside",)

    # Visits whose limits fired during the hold.
    aside: list[Visit]


class Hold(_Aside, msgspec.Struct, omit_defaults=True):
    """Why the run is held, since when, and for how long in total."""

    reasons: list[str] = []
    since: Timestamp | None = None
    # The same moment by the clock that measures durations.
    measured_since: Timestamp = ""
    total: float = 0.0
    # The part that was copied from an earlier run: it does not extend the limits of this one.
    taken_over: float = 0.0

    def __post_init__(self) -> None:
        self.aside = []


class AtVerdict(msgspec.Struct, omit_defaults=True):
    """The encoded tree at the moment of the run's verdict, and what the log says about attempts since then."""

    tree: msgspec.Raw
    started: list[tuple[str, int]] = []
    ended: list[tuple[str, int, Outcome | None]] = []
    # See `WorkflowState.spent`.
    spent: dict[int, dict[int, int]] = {}


class Agenda:
    """The state of one run. Rules change it; the machine asks it what is owed."""

    def __init__(self, plan: Plan, program: WorkflowProgram, rules: "Rules") -> None:
        self.plan = plan
        self.program = program
        self.rules = rules
        self.surroundings = Surroundings()
        self.root: Visit | None = None
        # Key -> visit: something owed from outside. An index of the tree.
        self.waits: dict[Any, Visit] = {}
        # Decisions that must still appear in the log, in order.
        self.records: deque[Record] = deque()
        self.agenda: deque[tuple[Operation, Visit]] = deque()
        self.hold = Hold()
        self.spending = Spending.of(plan.workflow.budget)
        # Changes to steps, by the path that a signal named.
        self.changes: dict[str, StepChange] = {}
        self.last_seq = 0
        # The last event that was copied from an earlier run.
        self.taken_over_to = 0
        # Visits started so far, for the limit `MAX_VISITS`.
        self.visits = 0
        self.pause_cycle = 0
        # 1, plus one for each RunReopened.
        self.opening = 1
        self.cancels = 0
        self.terminal = False
        # The log and these rules differ: something is recorded that was not owed.
        self.inconsistent = False
        self.ends_before_start = False
        # What a reopened run resumes.
        self.at_verdict: AtVerdict | None = None
        # Number of timers that only give the host a turn, and the one that is set.
        self.breath = 0
        self.breathing: str | None = None
        # For the event being folded: keys whose commands have changed, obsolete timers, records, reports.
        self.touched: dict[Any, None] = {}
        self.dropped: list[str] = []
        self.recorded: list[Record] = []
        self.reports: list[Report] = []

    @property
    def now(self) -> Timestamp:
        return self.surroundings.now

    @property
    def is_taking_over(self) -> bool:
        """Whether the event being folded was copied from an earlier run."""
        return self.last_seq <= self.taken_over_to

    # --- what the rules use -----------------------------------------------------------------------

    def wait(self, key: Any, visit: Visit) -> None:
        """Owe the command of `key` until it is answered."""
        self.waits[key] = visit
        self.touched[key] = None

    def touch(self, key: Any) -> None:
        """Mark that what is owed for a key has changed."""
        self.touched[key] = None

    def forget(self, key: Any) -> None:
        """Nothing is owed for a key any more; a timer that was handed out is cancelled."""
        self.waits.pop(key, None)
        if key in self.touched:
            del self.touched[key]
        elif isinstance(key, str):
            self.dropped.append(key)

    def later(self, operation: "Operation", visit: Visit) -> None:
        """Put forward movement onto the agenda instead of calling it, so that nothing recurses over items."""
        self.agenda.append((operation, visit))

    def record(self, event_type: str, path: str | None, attempt: int, payload: dict[str, Any]) -> None:
        decision = Record(event_type, path, attempt, payload)
        self.records.append(decision)
        self.recorded.append(decision)

    def report_scope(self, scope: Scope, status: str) -> None:
        """Report to views that an iteration or a branch has opened or closed."""
        is_iteration = scope.prefix.endswith("]/")
        path = scope.prefix[:-1] if is_iteration else scope.prefix + scope.block.nodes[0].step_id
        self.reports.append(ScopeReport(self.last_seq, path, scope.index, scope.item, status))

    def report_context(self) -> None:
        if self.root is not None and self.root.call is not None:
            self.reports.append(ContextReport(self.last_seq, dict(self.root.call.context)))

    def timer_key(self, visit: Visit, kind: str) -> str:
        """A key that is used once, so that a cancelled timer is not mistaken for the next one."""
        visit.counter += 1
        return f"{visit.path}|{visit.attempt}|{kind}|{visit.counter}"

    def after(self, seconds: float) -> Timestamp:
        return later(self.now, seconds)

    def view(self, scope: Scope, answers: Answers | None = None) -> ScopeView:
        return ScopeView(scope, self.surroundings, answers)

    def has_started(self, path: str, attempt: int) -> bool:
        """Whether this task is awaited and its StepStarted is in the log."""
        visit = self.waits.get((path, attempt))
        return visit is not None and visit.started

    def find(self, path: str) -> Visit | None:
        """The live visit with exactly this path."""
        found = self.find_scope(path)
        return found[0].live.get(found[1]) if found is not None else None

    def find_scope(self, path: str) -> tuple[Scope, int] | None:
        """The live scope that contains the step with this path, and the step's index there; walks down along
        the path.
        """
        pending = list(self.root.scopes.values()) if self.root is not None else []
        while pending:
            scope = pending.pop()
            if not path.startswith(scope.prefix):
                continue
            rest = path[len(scope.prefix) :]
            index = scope.block.index.get(rest)
            if index is not None:
                return scope, index
            inner = scope.live.get(scope.block.index.get(_first_name(rest), -1))
            if inner is not None:
                pending.extend(_scopes_towards(inner, path))
        return None


def _first_name(rest: str) -> str:
    """The first step on a path: `Deploy` for `Deploy#2[3]/Build`."""
    for place, letter in enumerate(rest):
        if letter in "/[#":
            return rest[:place]
    return rest


def _scopes_towards(visit: Visit, path: str) -> list[Scope]:
    """The scopes below a visit in which a path can continue; for a loop it is one iteration, however many
    there are.
    """
    before = f"{prefix_of(visit)}["
    if not path.startswith(before):
        return list(visit.scopes.values())
    number = path[len(before) : path.find("]", len(before))]
    scope = visit.scopes.get(int(number)) if number.isdecimal() else None
    return [scope] if scope is not None else []


class Rules(Protocol):
    """The functions of higher layers that a rule calls."""

    def close_if_empty(self, m: Agenda, scope: Scope) -> None: ...

    def continue_failed(self, m: Agenda, visit: Visit) -> None: ...

    def continue_list(self, m: Agenda, visit: Visit, index: int) -> None: ...

    def continue_stopped(self, m: Agenda, visit: Visit) -> None: ...

    def end_workflow(
        self, m: Agenda, scope: Scope, verdict: Verdict, *, aimed_at_error: bool = False
    ) -> None: ...

    def ended_late(self, m: Agenda, visit: Visit, outcome: Outcome | None) -> None: ...

    def enter(self, m: Agenda, scope: Scope, node: Node) -> None: ...

    def keep(self, m: Agenda) -> None: ...

    def keep_before_force(self, m: Agenda, root: Visit) -> None: ...

    def keep_cleanup(self, m: Agenda, visit: Visit) -> None: ...

    def leave_by_goto(self, m: Agenda, scope: Scope, step: str) -> None: ...

    def leave_iteration(self, m: Agenda, scope: Scope, outcome: Outcome | None, *, breaks: bool) -> None: ...

    def leave_to_next_opening(self, visit: Visit, loop: Loop) -> None: ...

    def open_call(self, m: Agenda, visit: Visit, body: Call) -> None: ...

    def open_loop(self, m: Agenda, visit: Visit, body: ForEach | While | Parallel | Group) -> None: ...

    def stop(self, m: Agenda, scope: Scope, code: str) -> None: ...

    def stop_scopes(self, m: Agenda, visit: Visit, code: str) -> None: ...

    def take_up(self, m: Agenda, scope: Scope, node: Node) -> None: ...

    def try_again(self, m: Agenda, visit: Visit) -> None: ...
