"""What a failed or cancelled run does when it is reopened.

At the moment of the run's verdict the tree is saved as it is, before anything is stopped. What the log
records after that belongs to the saved tree, too: an attempt that really ended keeps its outcome, and only
what the verdict stopped, or what failed and so caused it, runs again. If a completed step caused it (no
transition in a strict flow, a handler that says `error`), its outcome is routed again and leads to the same
end, unless the workflow was changed. For a stopped attempt of a step that may not be repeated blindly it is
unknown whether it took effect, so its `on_doubt` decides, as after a crash.

`_error` and `finally` of the run belong to an opening: the next one has its own. If only `finally` was left
to do, because the run's main list had completed, it is continued instead.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from podium.log.events import EventType
from podium.machine import (
    attempts,
    calls,
    checkpoint,
    graphs,
    holds,
    loops,
    routing,
    unfinished,
)
from podium.machine.agenda import Agenda, AtVerdict
from podium.machine.checkpoint import live_visits
from podium.machine.flow import Way
from podium.machine.program import Kind, Node
from podium.machine.tree import Outcome, Phase, Scope, Stage, Verdict, Visit

Attempt = tuple[str, int]


# --- keeping --------------------------------------------------------------------------------------


def keep(m: Agenda) -> None:
    """Save the tree before anything in it is stopped."""
    if m.root is not None:
        # The agenda follows from the phases, and queues and limits start empty.
        m.at_verdict = AtVerdict(checkpoint.pack(m.root))


def keep_cleanup(m: Agenda, visit: Visit) -> None:
    """The run's main list had completed and its `finally` is stopped, or has failed: only `finally` is left
    to do.

    A tree that was saved earlier is kept: by now parts of it are being stopped and would be resumed as
    stopped.
    """
    call = visit.call
    if m.at_verdict is None and visit is m.root and call is not None and call.main_completed:
        keep(m)


def keep_before_force(m: Agenda, root: Visit) -> None:
    """`_error` and `finally` of calls have continued since the verdict; now they are stopped, too."""
    if m.at_verdict is None:
        keep_cleanup(m, root)
        return
    kept = checkpoint.unpack_root(m, m.at_verdict.tree)
    for visit in live_visits(root):
        if visit.call is not None and visit is not root and calls.is_decided(visit.call):
            old = next((one for one in live_visits(kept) if one.path == visit.path), None)
            if old is not None:
                again = checkpoint.replace(m, old, visit)
                again.stopping, again.stop_code = False, ""
    m.at_verdict.tree = checkpoint.pack(kept)


def started_late(m: Agenda, visit: Visit) -> None:
    """StepStarted of an attempt that is being stopped."""
    if m.at_verdict is not None:
        m.at_verdict.started.append((visit.path, visit.attempt))


def ended_late(m: Agenda, visit: Visit, outcome: Outcome | None) -> None:
    """The end of an attempt that was being stopped; None: it was stopped."""
    unfinished.keep_end(visit, outcome)
    if m.at_verdict is not None:
        m.at_verdict.ended.append((visit.path, visit.attempt, outcome))


def keep_for_reopening(m: Agenda, *, completed: bool) -> None:
    """The run has ended: save what a RunReopened resumes; after a success, nothing."""
    if completed:
        m.at_verdict = None
        m.ends_before_start = False
        return
    root = m.root
    if root is None or root.call is None:
        m.ends_before_start = root is None
        return
    if m.at_verdict is None:
        keep(m)  # a run that was ended from outside
    if m.at_verdict is not None:
        m.at_verdict.spent = root.call.spent


# --- what would be taken up -----------------------------------------------------------------------


class Cause(msgspec.Struct, frozen=True):
    """A step whose outcome ended the run."""

    path: str
    # It runs again when the run is reopened. One that has not failed is only routed again.
    has_failed: bool
    has_transition: bool


def causes(m: Agenda) -> list[Cause]:
    """The steps whose outcomes ended the run. Empty if it was stopped from outside."""
    if m.at_verdict is None:
        return []
    root = checkpoint.unpack_root(m, m.at_verdict.tree)
    scopes = (scope for visit in live_visits(root) for scope in visit.scopes.values())
    return [cause for scope in scopes for cause in _causes_in(m, scope)]


def _causes_in(m: Agenda, scope: Scope) -> list[Cause]:
    """For a composite that failed, the causes inside it."""
    found: list[Cause] = []
    for node in _ending_nodes(scope):
        left = scope.left.get(node.index) if scope.left is not None else None
        inside = unfinished.lists_of(m, left) if left is not None else ()
        found += [cause for inner in inside for cause in _causes_in(m, inner)] or [_cause(scope, node)]
    return found


def _ending_nodes(scope: Scope) -> list[Node]:
    if scope.graph is not None:
        return graphs.ending_nodes(scope, scope.graph)
    ended_it = not scope.live and not unfinished.was_stopped(scope) and scope.cause >= 0
    return [scope.block.nodes[scope.cause]] if ended_it else []


def _cause(scope: Scope, node: Node) -> Cause:
    outcome = attempts.recorded_outcome(scope, node)
    failed = routing.has_failed(outcome, node)
    way = node.ways[outcome.event if failed or outcome.event == "skipped" else "success"]
    return Cause(scope.prefix + node.step_id, failed, way is not Way.NO_TRANSITION)


# --- taking up ------------------------------------------------------------------------------------


class _Late:
    """What the log says about attempts since the verdict."""

    def __init__(
        self, started: Iterable[Attempt] = (), ended: Iterable[tuple[str, int, Outcome | None]] = ()
    ) -> None:
        self._ended: dict[Attempt, Outcome | None] = {
            (path, attempt): outcome for path, attempt, outcome in ended
        }
        self._started = set(started)

    def outcome_of(self, visit: Visit) -> Outcome | None:
        """How the attempt really ended; None: it was stopped, or never started."""
        return self._ended.get((visit.path, visit.attempt))

    def has_started(self, visit: Visit) -> bool:
        return visit.started or (visit.path, visit.attempt) in self._started


class _Kept(_Late):
    """Like `_Late`, for what was stopped because something around it failed: each visit holds its own
    outcome. One that failed as well runs again.
    """

    def outcome_of(self, visit: Visit) -> Outcome | None:
        outcome = visit.outcome
        return outcome if outcome is not None and not routing.has_failed(outcome, visit.node) else None


KEPT: Final = _Kept()


def reopen(m: Agenda) -> None:
    """Resume from the saved tree: what the verdict stopped, and what caused it, runs again; limits start
    again.
    """
    saved = m.at_verdict
    m.terminal = False
    m.opening += 1
    m.cancels = 0
    m.at_verdict = None
    m.ends_before_start = False
    m.hold.reasons.clear()
    m.hold.aside.clear()
    m.hold.since = None
    m.spending.start_over()
    if saved is None:
        return  # it had ended before its start and still has to start
    _take_up(m, saved)
    m.report_context()
    # What came after the verdict starts again, including its budget.
    m.spending.keep({visit.path for visit in live_visits(m.root)} if m.root is not None else set())


def _take_up(m: Agenda, saved: AtVerdict) -> None:
    root = m.root = checkpoint.unpack_root(m, saved.tree)
    late = _Late(saved.started, saved.ended)
    # Timers of the run are numbered by the opening: the log already has those of the last one.
    root.attempt = m.opening
    root.limit = root.limit_due = None
    call = root.workflow
    call.spent = saved.spent
    call.no_more = False
    if call.main_completed:
        resume_cleanup(m, root, late)
        return
    limit = call.program.workflow.timeout
    if limit is not None:
        holds.arm(m, root, limit)
    for scope in list(root.scopes.values()):
        scope.verdict = None
        scope.stopping = False
        resume_list(m, scope, late)


def resume_cleanup(m: Agenda, root: Visit, late: _Late) -> None:
    """Resume `finally`: what has completed is kept; what failed or was stopped runs again."""
    call = root.workflow
    call.verdict = Verdict("completed")
    cleanup = root.scopes.get(calls.CLEANUP)
    if call.stage is Stage.END:
        calls.end(m, root)
        return
    if cleanup is None:
        root.scopes.clear()
        calls.start_cleanup(m, root)
        return
    calls.arm_cleanup(m, root)
    ended_by = cleanup.verdict
    if cleanup.live and ended_by is not None and ended_by.status == "completed":
        _close(m, cleanup, late)  # `end` was stopping what still ran
        return
    cleanup.verdict = None
    cleanup.stopping = False
    if cleanup.live:
        resume_list(m, cleanup, late)
        return
    if (ended_by is None or ended_by.status == "failed") and not _has_failed(cleanup, cleanup.cause):
        # A handler ended it, or a completed step has no transition.
        attempts.leave_again(m, cleanup, cleanup.block.nodes[cleanup.cause])
        return
    failed = [node for node in cleanup.block.nodes if _has_failed(cleanup, node.index)]
    cleanup.failed_unhandled = False
    if failed:
        done = {node.index for node in cleanup.block.nodes if node.step_id in cleanup.results}
        cleanup.kept = sorted(done - {node.index for node in failed})
        attempts.take_up(m, cleanup, failed[0])
    else:
        routing.end_scope(m, cleanup, Verdict("completed"))


def _has_failed(scope: Scope, index: int) -> bool:
    node = scope.block.nodes[index]
    return node.step_id in scope.results and routing.has_failed(attempts.recorded_outcome(scope, node), node)


def resume_list(m: Agenda, scope: Scope, late: _Late) -> None:
    """Everything live in a list starts again; if nothing is, then the step that left last, which caused the
    verdict.

    That step runs again only if its own failure was the cause. If it completed, its outcome is only routed
    again.
    """
    live = list(scope.live.values())
    if scope.graph is not None:
        graphs.resume_list(m, scope, scope.graph)
    elif not live and scope.cause >= 0:
        attempts.take_up(m, scope, scope.block.nodes[scope.cause])
    for visit in live:
        _resume_visit(m, visit, late)


def _resume_visit(m: Agenda, visit: Visit, late: _Late) -> None:
    match visit.phase:
        case Phase.OPEN | Phase.COND | Phase.INTERVAL:
            _resume_composite(m, visit, late)
        case Phase.HELD if visit.loop is not None or visit.call is not None:
            m.rules.continue_failed(m, visit)
        case Phase.NEW | Phase.PROBE:
            visit.phase = Phase.NEW
            visit.wait = None
            m.later("begin", visit)
        case Phase.SETTLED if late is KEPT and late.outcome_of(visit) is None:
            _run_again(m, visit)
        case Phase.SETTLED:
            m.later("leave", visit)
        case Phase.DOUBT:
            m.wait(visit.wait, visit)
        case Phase.RUN if (outcome := late.outcome_of(visit)) is not None:
            visit.wait = None
            attempts.take_outcome(m, visit, outcome)
        case Phase.RUN if visit.outcome is not None:
            _run_again(m, visit)
        case Phase.RUN if late.has_started(visit) and not visit.node.step.idempotent:
            _doubt(m, visit)
        case _:
            _run_again(m, visit)


def _run_again(m: Agenda, visit: Visit) -> None:
    if visit.phase is Phase.SETTLED and (visit.loop is not None or visit.call is not None):
        m.rules.continue_failed(m, visit)
        return
    attempts.next_attempt(visit)
    visit.tries = 1
    visit.limit = visit.limit_due = None
    attempts.try_again(m, visit)


def _doubt(m: Agenda, visit: Visit) -> None:
    """An attempt has one end, and the log has that of the stopped one: the doubt is recorded for the next
    attempt.
    """
    stopped = visit.attempt
    attempts.next_attempt(visit)
    visit.tries = 1
    visit.wait = None
    payload = {"stopped": stopped, "onDoubt": visit.node.step.on_doubt}
    m.record(EventType.STEP_INTERRUPTED, visit.path, visit.attempt, payload)
    attempts.interrupted(m, visit)


def _resume_composite(m: Agenda, visit: Visit, late: _Late) -> None:
    """The attempt that the verdict stopped has its end in the log; what is done inside stays done."""
    outcome = late.outcome_of(visit)
    if late is KEPT and outcome is None:
        m.rules.continue_stopped(m, visit)
        return
    decided, goto = visit.verdict, visit.goto
    attempts.next_attempt(visit)
    visit.verdict, visit.goto = decided, goto
    visit.phase = Phase.OPEN
    visit.wait = visit.due = visit.limit = visit.limit_due = None
    m.record(EventType.STEP_STARTED, visit.path, visit.attempt, {"reopened": True})
    if outcome is not None:
        _keep_scopes(m, visit, late)
        calls.end_with(m, visit, outcome)
    elif decided is not None or (visit.call is not None and calls.is_closing(visit.call)):
        _close_scopes(m, visit, late)
    else:
        _resume_inside(m, visit, late)


def _resume_inside(m: Agenda, visit: Visit, late: _Late) -> None:
    node, loop = visit.node, visit.loop
    if visit.call is not None and visit.call.stage is Stage.FINALLY:
        calls.arm_cleanup(m, visit)
    elif visit.call is None or visit.call.stage is Stage.MAIN:
        limit = loops.limit_of(visit) if visit.call is None else calls.limit_of(visit)
        if limit is not None:
            holds.arm(m, visit, limit)
    if loop is not None:
        loop.pending = False
    for scope in list(visit.scopes.values()):
        if scope.stopping or scope.verdict is not None:
            _close(m, scope, late)
        else:
            resume_list(m, scope, late)
    if loop is None or loop.pending:
        return
    if node.kind in (Kind.FOR_EACH, Kind.PARALLEL):
        loop.pending = True
        m.later("fill", visit)
    elif node.kind is Kind.WHILE and not visit.scopes:
        loop.pending = True
        m.later("check", visit)


def _close_scopes(m: Agenda, visit: Visit, late: _Late) -> None:
    """What was decided inside before the run's verdict stays decided: nothing more starts there."""
    for scope in list(visit.scopes.values()):
        _close(m, scope, late)


def _close(m: Agenda, scope: Scope, late: _Late) -> None:
    _set_aside(m, scope, late)
    scope.stopping = True
    m.rules.close_if_empty(m, scope)


def _set_aside(m: Agenda, scope: Scope, late: _Late) -> None:
    """Leave no visit live in the list, as after it was stopped."""
    for visit in scope.live.values():
        if visit.phase in (Phase.RUN, Phase.OPEN):
            visit.started = late.has_started(visit)
            unfinished.keep_end(visit, late.outcome_of(visit))
        _keep_scopes(m, visit, late)
        unfinished.keep_stopped(m, visit)
        visit.phase = Phase.DONE
    scope.live.clear()


def _keep_scopes(m: Agenda, visit: Visit, late: _Late) -> None:
    """Keep the lists of a visit that has ended, in case it is continued later."""
    for scope in visit.scopes.values():
        _set_aside(m, scope, late)
        unfinished.keep_inside(visit, scope)
    visit.scopes.clear()
