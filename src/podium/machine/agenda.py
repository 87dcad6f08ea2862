"""What all rules of the machine share: the state of a run, and the ways to move it.

Rules are modules in layers. A rule calls rules of lower layers directly. What moves forward goes onto the agenda, by
name, and is done later; so nothing recurses over the items of a loop. The few calls upward go through `rules`, which
`machine.py` connects. So the modules do not import each other in a cycle.
"""

from collections import deque
from typing import Any, Literal, Protocol, TypeAlias

from podium.log.times import Timestamp, later
from podium.machine.accounts import Spending
from podium.machine.commands import ContextReport, Question, Record, Report, ScopeReport
from podium.machine.program import Node, WorkflowProgram
from podium.machine.tree import Loop, Outcome, Scope, Verdict, Visit, prefix_of
from podium.machine.values import ScopeView, Surroundings
from podium.plan.changes import StepChange
from podium.plan.plan import Call, ForEach, Group, Parallel, Plan, While

# What can be on the agenda; `layers.py` says which function does it.
Operation: TypeAlias = Literal["begin", "start", "leave", "fill", "check", "pass"]


class Hold:
    """The reasons, since when, and how long in all."""

    __slots__ = ("aside", "measured_since", "reasons", "since", "taken_over", "total")

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.since: Timestamp | None = None
        # The same moment on the clock by which durations are measured.
        self.measured_since: Timestamp = ""
        self.total = 0.0
        # How much of it was taken over from an earlier run: the limits of this one are not extended by that.
        self.taken_over = 0.0
        # Limits that fired during the hold.
        self.aside: list[Visit] = []


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
        self.spending = Spending(plan.workflow.budget)
        # What was changed in steps, by the path that a signal named.
        self.changes: dict[str, StepChange] = {}
        self.last_seq = 0
        # The last event that was taken over from an earlier run.
        self.taken_over_to = 0
        # Visits started so far, for the last resort.
        self.visits = 0
        self.pause_cycle = 0
        # 1, and one more for each RunReopened.
        self.opening = 1
        self.cancels = 0
        self.terminal = False
        # The log and these rules differ: something is recorded that was not owed.
        self.inconsistent = False
        self.ends_before_start = False
        # The tree as it was when the run's verdict fell, and how attempts ended after that.
        self.at_verdict: Any = None
        # Timers that only give the host a turn, and the one that is set.
        self.breath = 0
        self.breathing: str | None = None
        # Of the event being folded: keys whose commands have changed, timers not needed any more, records, reports.
        self.touched: dict[Any, None] = {}
        self.dropped: list[str] = []
        self.recorded: list[Record] = []
        self.reports: list[Report] = []

    @property
    def now(self) -> Timestamp:
        return self.surroundings.now

    @property
    def is_taking_over(self) -> bool:
        """Whether the event being folded was taken over from an earlier run."""
        return self.last_seq <= self.taken_over_to

    # --- what the rules use -----------------------------------------------------------------------

    def wait(self, key: Any, visit: Visit) -> None:
        """Owe what `key` says until it is answered."""
        self.waits[key] = visit
        self.touched[key] = None

    def touch(self, key: Any) -> None:
        """What is owed for a key has changed."""
        self.touched[key] = None

    def forget(self, key: Any) -> None:
        """Nothing is owed for a key any more; a timer that was handed out is called off."""
        self.waits.pop(key, None)
        if key in self.touched:
            del self.touched[key]
        elif isinstance(key, str):
            self.dropped.append(key)

    def later(self, operation: "Operation", visit: Visit) -> None:
        """Forward movement never calls: it goes onto the agenda, so that nothing recurses over items."""
        self.agenda.append((operation, visit))

    def record(self, event_type: str, path: str | None, attempt: int, payload: dict[str, Any]) -> None:
        decision = Record(event_type, path, attempt, payload)
        self.records.append(decision)
        self.recorded.append(decision)

    def report_scope(self, scope: Scope, status: str) -> None:
        """For views: an iteration or a branch has opened or closed."""
        is_iteration = scope.prefix.endswith("]/")
        path = scope.prefix[:-1] if is_iteration else scope.prefix + scope.block.nodes[0].step_id
        self.reports.append(ScopeReport(self.last_seq, path, scope.index, scope.item, status))

    def report_context(self) -> None:
        if self.root is not None and self.root.call is not None:
            self.reports.append(ContextReport(self.last_seq, dict(self.root.call.context)))

    def timer_key(self, visit: Visit, kind: str) -> str:
        """Used once: a timer that was dropped must not be taken for the next one."""
        visit.counter += 1
        return f"{visit.path}|{visit.attempt}|{kind}|{visit.counter}"

    def after(self, seconds: float) -> Timestamp:
        return later(self.now, seconds)

    def view(self, scope: Scope, answers: dict[Question, bool] | None = None) -> ScopeView:
        return ScopeView(scope, self.surroundings, answers)

    def has_started(self, path: str, attempt: int) -> bool:
        """Whether this task is waited for and its StepStarted is in the log."""
        visit = self.waits.get((path, attempt))
        return visit is not None and visit.started

    def find(self, path: str) -> Visit | None:
        """The live visit with exactly this path."""
        found = self.find_scope(path)
        return found[0].live.get(found[1]) if found is not None else None

    def find_scope(self, path: str) -> tuple[Scope, int] | None:
        """The live scope in which a step with this path is, and its place there; walks down along the path."""
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
    """The step that a path leads to first: `Deploy` of `Deploy#2[3]/Build`."""
    for place, letter in enumerate(rest):
        if letter in "/[#":
            return rest[:place]
    return rest


def _scopes_towards(visit: Visit, path: str) -> list[Scope]:
    """Where a path can continue below a visit; of a loop it is one iteration, however many there are."""
    before = f"{prefix_of(visit)}["
    if not path.startswith(before):
        return list(visit.scopes.values())
    number = path[len(before) : path.find("]", len(before))]
    scope = visit.scopes.get(int(number)) if number.isdecimal() else None
    return [scope] if scope is not None else []


class Rules(Protocol):
    """What a rule asks of the layers above it."""

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
