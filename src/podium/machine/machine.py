"""What to do next, given what has happened.

Every engine asks this module and no other. The same plan and the same events give the same commands in any
process at any time; replay, and running one plan under three engines, depend on that. No clock, no ids, no
I/O: time enters as the `emittedAt` of events, answers of the environment as events.

This file is the frame: which event is handled by which function, and what is owed. The state is in `agenda`
and `tree`. The rules are beside it; each calls only those of lower layers:

    attempts   one step: enter, `when`, start, outcome, retries, leave
    routing    where an outcome leads in a flow            graphs     which steps are ready in a graph
    loops      for_each, while, parallel, group            joins      decided or not
    calls      the run and `call`: main, _error, finally   stopping   stop what runs, notice when it has stopped
    reopening  what a reopened run resumes                 unfinished what is kept of what failed or was stopped
    continuing how such a composite is continued
    holds      pause; limits are suspended while held      budgets    what agents cost, and which can start
    signals    what a person asks for                      commands   what is owed in which phase
    tree       the state; nothing is decided there

Everything ends in two phases: first its *verdict* is certain; later, when nothing inside is live, it is
*closed*. Only then is its owner notified. So nothing old ever runs beside the next step.
"""

from collections.abc import Callable
from typing import Final

from podium.log.events import EventRecord, EventType
from podium.log.payloads import ProbeAnswered, RunStarted, TimerFired, fields_of, payload_of
from podium.machine import (
    attempts,
    budgets,
    calls,
    checkpoint,
    holds,
    loops,
    reopening,
    signals,
)
from podium.machine.agenda import Agenda
from podium.machine.answers import identity_of
from podium.machine.commands import CancelTimer, Command, Record, SetTimer
from podium.machine.layers import OPERATIONS, RULES
from podium.machine.obligations import Obligation
from podium.machine.owed import command, obligation
from podium.machine.program import WorkflowProgram, program_of
from podium.machine.progress import Progress, open_loops
from podium.machine.tree import DONE, INTERVAL, RUN, Phase, Visit
from podium.plan.plan import Plan

# Recorded in RunStarted: a log written under other rules is not folded under these.
RULES_VERSION: Final = 3
# Maximum number of operations per `advance` (a few milliseconds), so that no loop of gates blocks the host.
_MAX_OPERATIONS: Final = 2000


class Machine(Agenda):
    """One run of a plan. `advance` folds one recorded event and returns what is now owed."""

    def __init__(self, plan: Plan, program: WorkflowProgram | None = None) -> None:
        super().__init__(plan, program if program is not None else program_of(plan), RULES)

    # --- what a host asks -------------------------------------------------------------------------

    def advance(self, event: EventRecord) -> list[Command]:
        """Fold one event. Total: late, repeated, foreign or malformed events change nothing."""
        if event.run_seq <= self.last_seq:
            return []
        self.last_seq = event.run_seq
        # Time never runs backwards, whatever a worker's clock says.
        if event.emitted_at > self.surroundings.now:
            self.surroundings.now = event.emitted_at
        if event.run_seq <= self.taken_over_to:
            self.surroundings.recalled.recall(fields_of(event), self.now)
        handler = _HANDLERS.get(event.event_type)
        if handler is None or (self.terminal and event.event_type != EventType.RUN_REOPENED):
            return []
        handler(self, event)
        self._work()
        return self._owed_now()

    def outstanding(self) -> list[Command]:
        """Every command that is owed and not yet answered; after a replay, perform these."""
        if self.terminal:
            return []
        owed: list[Command] = list(self.records)
        for key, visit in self.waits.items():
            if (due := command(key, visit)) is not None:
                owed.append(due)
        if self.breathing is not None:
            owed.append(SetTimer(self.breathing, self.now))
        return owed

    def obligations(self) -> list[Obligation]:
        """What the run waits for; never empty while it is open."""
        if self.terminal:
            return []
        found = [obligation(key, visit) for key, visit in self.waits.items()]
        for reason in self.hold.reasons:
            why = budgets.why_held(self) if reason == "budget" else ""
            found.append(Obligation("hold", reason, since=self.hold.since, detail=why))
        if "budget" not in self.hold.reasons:
            found += [Obligation("budget", one.path, one.attempt) for one in self.spending.queue.values()]
        if self.records:
            found.append(Obligation("record", self.records[0].event_type))
        if self.breathing is not None:
            found.append(Obligation("timer", self.breathing, deadline=self.now))
        if self.root is None and not self.records:
            found.append(Obligation("start", "the run has not started"))
        return found

    def progress(self) -> Progress:
        """What it waits for, and the progress of its loops."""
        return Progress(self.obligations(), tuple(open_loops(self.root)))

    def checkpoint(self, plan_sha256: str = "") -> bytes:
        """The state as bytes; the machine restored from it behaves the same. In one process no hash is needed."""
        return checkpoint.encode(self, plan_sha256, RULES_VERSION)

    @classmethod
    def restore(
        cls, plan: Plan, encoded: bytes, plan_sha256: str = "", program: WorkflowProgram | None = None
    ) -> "Machine":
        machine = cls(plan, program)
        checkpoint.decode(machine, encoded, plan_sha256, RULES_VERSION)
        return machine

    def may_start(self, path: str, attempt: int) -> bool:
        """Whether a host may start this task now: it is awaited, and the run is not held."""
        visit = self.waits.get((path, attempt))
        return visit is not None and not visit.stopping and not self.hold.reasons

    # --- the agenda -------------------------------------------------------------------------------

    def _work(self) -> None:
        if self.breathing is not None:
            return
        operations = 0
        while not self.hold.reasons and (self.agenda or (self.spending.moved and budgets.call_next(self))):
            operation, visit = self.agenda.popleft()
            if visit.phase is DONE:
                continue  # it was stopped in the meantime
            if operations >= _MAX_OPERATIONS:
                self.agenda.appendleft((operation, visit))
                self.breath += 1
                self.breathing = f"|breath|{self.breath}"
                self.touched[self.breathing] = None
                return
            operations += 1
            OPERATIONS[operation](self, visit)

    def _owed_now(self) -> list[Command]:
        """The commands of what this event touched; what it started and stopped again is never handed out."""
        owed: list[Command] = [*self.recorded]
        for key in self.touched:
            if key == self.breathing:
                owed.append(SetTimer(key, self.now))
                continue
            visit = self.waits.get(key)
            if visit is not None and (due := command(key, visit)) is not None:
                owed.append(due)
                visit.handed = True
        self.touched.clear()
        self.recorded.clear()
        if self.dropped:
            owed += [CancelTimer(key) for key in self.dropped]
            self.dropped.clear()
        if self.reports:
            owed += self.reports
            self.reports.clear()
        return owed


# --- which event goes where -----------------------------------------------------------------------


def _run_started(m: Machine, event: EventRecord) -> None:
    if m.root is not None or m.ends_before_start:
        return
    started = payload_of(event, RunStarted)
    m.surroundings.env, m.surroundings.run = started.env, started.run
    if started.taken_over is not None:
        m.taken_over_to = event.run_seq + started.taken_over
        m.surroundings.recalled.recall(fields_of(event), m.now)
    calls.open_run(m, started.inputs if isinstance(started.inputs, dict) else {})


def _answered(m: Machine, event: EventRecord) -> Visit | None:
    """The visit whose task this event is about, if it is awaited; otherwise the event may confirm a record."""
    visit = m.waits.get((event.step_id, event.logical_attempt_id))
    if visit is None or visit.phase is not RUN:
        _confirm(m, event)
        return None
    return visit


def _step_started(m: Machine, event: EventRecord) -> None:
    visit = _answered(m, event)
    if visit is not None:
        visit.started = True
        if visit.stopping:
            reopening.started_late(m, visit)


def _step_completed(m: Machine, event: EventRecord) -> None:
    visit = _answered(m, event)
    if visit is not None:
        del m.waits[visit.wait]
        attempts.completed(m, visit, fields_of(event))


def _step_failed(m: Machine, event: EventRecord) -> None:
    visit = _answered(m, event)
    if visit is not None:
        del m.waits[visit.wait]
        attempts.failed(m, visit, fields_of(event))


def _step_interrupted(m: Machine, event: EventRecord) -> None:
    visit = m.waits.get((event.step_id, event.logical_attempt_id))
    if visit is None or visit.phase is not RUN or not visit.started:
        _confirm(m, event)
        return
    if visit.stopping or not visit.node.step.idempotent:
        del m.waits[visit.wait]
        attempts.interrupted(m, visit)


def _timer_fired(m: Machine, event: EventRecord) -> None:
    fired = payload_of(event, TimerFired)
    key = fired.key
    if key is not None and key == m.breathing:
        # No other event may let the agenda continue.
        m.breathing = None
        return
    visit = m.waits.pop(key, None)
    if visit is None:
        return
    due = visit.limit_due if key == visit.limit else visit.due
    if fired.reused_from is not None:
        due = None  # it was awaited in the run that it was copied from
    if due is not None and due > m.now:
        m.surroundings.now = due
    if key == visit.limit:
        if holds.is_due(m, visit):
            _limit_reached(m, visit)
        return
    if visit.phase is INTERVAL:
        loops.next_pass(m, visit)
    elif visit.phase is Phase.BACKOFF:
        attempts.try_again(m, visit)
    elif visit.phase is Phase.HELD and visit.outcome is not None:
        attempts.settle(m, visit, visit.outcome)


def _limit_reached(m: Machine, visit: Visit) -> None:
    if visit.call is not None:
        calls.timed_out(m, visit)
    elif visit.phase is Phase.ASK:
        m.forget(visit.wait)
        attempts.expire(m, visit)
    else:
        loops.timed_out(m, visit)


def _probe_answered(m: Machine, event: EventRecord) -> None:
    said = payload_of(event, ProbeAnswered)
    visit = m.waits.get(said.key)
    if visit is None or visit.phase not in (Phase.PROBE, Phase.COND):
        return
    if len(said.answers) != len(visit.questions):
        return
    del m.waits[said.key]
    visit.wait = None
    answered = zip((question.key for question in visit.questions), said.answers, strict=True)
    visit.answers = {**(visit.answers or {}), **dict(answered)}
    if visit.phase is Phase.PROBE:
        visit.phase = Phase.NEW
        m.later("begin", visit)
    else:
        visit.phase = Phase.OPEN
        m.later("check", visit)


def _signal_accepted(m: Machine, event: EventRecord) -> None:
    signals.accepted(m, fields_of(event))


def _confirm(m: Machine, event: EventRecord) -> None:
    """A decision appears in the log. If it was not owed, log and rules differ; then nothing is guessed."""
    for place, owed in enumerate(m.records):
        if (
            owed.event_type == event.event_type
            and owed.path == event.step_id
            and owed.attempt == event.logical_attempt_id
        ):
            del m.records[place]
            return
    if event.event_type in _ONLY_OURS:
        m.inconsistent = True


def _confirm_by_subject(m: Machine, event: EventRecord) -> None:
    """Records that are distinguished by their subject, which is in the payload."""
    decided = identity_of(Record(event.event_type, None, event.logical_attempt_id, fields_of(event)))
    place = next((place for place, owed in enumerate(m.records) if identity_of(owed) == decided), None)
    if place is not None:
        del m.records[place]


def _ended(m: Machine, event: EventRecord) -> None:
    """Terminal is terminal: from now on only RunReopened has an effect."""
    _confirm(m, event)
    m.terminal = True
    reopening.keep_for_reopening(m, completed=event.event_type == EventType.RUN_COMPLETED)
    m.root = None
    m.waits.clear()
    m.agenda.clear()
    m.records.clear()
    m.breathing = None


def _reopened(m: Machine, _event: EventRecord) -> None:
    if m.terminal and (m.at_verdict is not None or m.ends_before_start):
        reopening.reopen(m)


_ONLY_OURS: Final = frozenset(
    {EventType.STEP_SKIPPED, EventType.STEP_RETRY_SCHEDULED, EventType.RUN_PAUSED, EventType.RUN_RESUMED}
)
_HANDLERS: Final[dict[str, Callable[[Machine, EventRecord], None]]] = {
    EventType.RUN_STARTED: _run_started,
    EventType.STEP_STARTED: _step_started,
    EventType.STEP_COMPLETED: _step_completed,
    EventType.STEP_FAILED: _step_failed,
    EventType.STEP_INTERRUPTED: _step_interrupted,
    EventType.STEP_SKIPPED: _confirm,
    EventType.STEP_RETRY_SCHEDULED: _confirm,
    EventType.TIMER_FIRED: _timer_fired,
    EventType.PROBE_ANSWERED: _probe_answered,
    EventType.SIGNAL_ACCEPTED: _signal_accepted,
    EventType.SIGNAL_IGNORED: _confirm,
    EventType.BUDGET_CHARGED: _confirm_by_subject,
    EventType.NOTIFICATION_DUE: _confirm_by_subject,
    EventType.RUN_PAUSED: _confirm,
    EventType.RUN_RESUMED: _confirm,
    EventType.RUN_COMPLETED: _ended,
    EventType.RUN_FAILED: _ended,
    EventType.RUN_CANCELLED: _ended,
    EventType.RUN_REOPENED: _reopened,
}
