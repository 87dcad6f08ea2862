"""How a reopened run continues a composite that failed, or one that was stopped because something around it
failed.

Only lists that failed or were stopped are continued (`unfinished.py` keeps them), each at the step that
failed or was stopped, recursively. Items that were never started follow as slots become free. The failed
attempt has its end in the log, so the composite continues as its next attempt; its limits start again, its
counters continue.
"""

from podium.log.events import EventType
from podium.machine import attempts, calls, checkpoint, holds, loops, reopening
from podium.machine.agenda import Agenda
from podium.machine.program import Kind
from podium.machine.tree import Loop, Phase, Scope, Stage, Unfinished, Visit, status_of


def continue_failed(m: Agenda, visit: Visit) -> None:
    """A composite that failed by itself: everything unfinished in it runs again."""
    _next_attempt(m, visit)
    if visit.call is not None:
        _continue_call(m, visit)
    else:
        _continue_loop(m, visit, failed_too=True)


def continue_stopped(m: Agenda, visit: Visit) -> None:
    """A composite that was stopped. If it was undecided, steps in it that had already failed stay failed."""
    decided = visit.verdict
    _next_attempt(m, visit)
    if visit.call is not None:
        _continue_call(m, visit)
    elif decided is not None and decided.status == "completed":
        visit.verdict = decided
        loops.close(m, visit)
    else:
        _continue_loop(m, visit, failed_too=decided is not None)


def _next_attempt(m: Agenda, visit: Visit) -> None:
    attempts.next_attempt(visit)
    restore_budget(m, visit)
    visit.phase = Phase.OPEN
    visit.wait = visit.due = visit.limit = visit.limit_due = None
    m.record(EventType.STEP_STARTED, visit.path, visit.attempt, {"reopened": True})


# --- loops, branches, groups ----------------------------------------------------------------------


def _continue_loop(m: Agenda, visit: Visit, *, failed_too: bool) -> None:
    node, loop = visit.node, visit.progress
    limit = loops.limit_of(visit)
    if limit is not None:
        holds.arm(m, visit, limit)
    if loop.exit_reason == "max_iterations":
        loop.first_counted = loop.index
    loop.stopped = loop.exit_reason == "break"
    if not loop.stopped:
        loop.exit_reason = ""
    lists = _unfinished_lists(visit, loop, failed_too=failed_too)
    if node.kind in (Kind.FOR_EACH, Kind.PARALLEL):
        loop.again = sorted(loop.again + lists)
        loop.pending = True
        m.later("fill", visit)
    elif lists:
        loop.pending = False
        continue_list(m, visit, lists[0])
    else:
        loop.pending = True
        m.later("check", visit)


def _unfinished_lists(visit: Visit, loop: Loop, *, failed_too: bool) -> list[int]:
    """The lists to be continued. They are open again, so they no longer count as ended."""
    found: list[int] = []
    turns = set(loop.again)
    for index, status in _statuses(visit):
        if index in turns or not (failed_too or status == "cancelled"):
            continue
        found.append(index)
        _count(loop, status, -1)
    return found


def _statuses(visit: Visit) -> list[tuple[int, str]]:
    kept = _kept(visit)
    statuses = [(index, status_of(scope)) for index, scope in kept.scopes.items()]
    return statuses + [(index, status) for index, (status, _) in kept.items.items()]


def leave_to_next_opening(visit: Visit, loop: Loop) -> None:
    """The join was decided before these lists were continued: they stay unfinished."""
    turns = set(loop.again)
    for index, status in _statuses(visit):
        if index in turns:
            _count(loop, status, 1)
    loop.again = []


def _count(loop: Loop, status: str, number: int) -> None:
    if status == "failed":
        loop.failed += number
    else:
        loop.cancelled += number


def continue_list(m: Agenda, visit: Visit, index: int) -> None:
    kept = _kept(visit)
    packed = kept.items.pop(index, None)
    scope = kept.scopes.pop(index) if packed is None else checkpoint.unpack_list(m, packed[1], visit)
    visit.scopes[index] = scope
    if visit.node.kind in (Kind.FOR_EACH, Kind.PARALLEL, Kind.WHILE):
        m.report_scope(scope, "running")
    restore(m, scope)
    reopening.resume_list(m, scope, reopening.KEPT)


def restore(m: Agenda, scope: Scope) -> None:
    """Make the stopped visits of a list live again, in the phase in which they were stopped."""
    scope.verdict = None
    scope.stopping = False
    left = scope.left or {}
    for visit in list(left.values()):
        kept = _kept(visit)
        if kept.phase is None:
            continue  # it failed by itself: the list resumes it
        del left[visit.node.index]
        scope.live[visit.node.index] = visit
        visit.phase, kept.phase = kept.phase, None
        if visit.phase in (Phase.RUN, Phase.OPEN):
            visit.outcome, kept.outcome = kept.outcome, None
        visit.stopping, visit.stop_code = False, ""
        restore_budget(m, visit)


def restore_budget(m: Agenda, visit: Visit) -> None:
    """Restore what was spent of its own budget."""
    kept = visit.unfinished
    if kept is not None and kept.account is not None:
        m.spending.accounts[visit.path] = kept.account
        kept.account = None


# --- calls ----------------------------------------------------------------------------------------


def _continue_call(m: Agenda, visit: Visit) -> None:
    """Continue the call's main list or, if that had completed, its `finally`. `_error` and `finally` belong
    to an attempt.
    """
    call, kept = visit.workflow, _kept(visit)
    # The next attempt has its own `_error` and `finally`, with paths of their own.
    call.spent = {}
    call.aimed_at_error = False
    if call.main_completed:
        _continue_cleanup(m, visit)
        return
    call.verdict = None
    call.stage = Stage.MAIN
    call.main_results = {}
    if kept.context is not None:
        call.context, kept.context = kept.context, None
    limit = calls.limit_of(visit)
    if limit is not None:
        holds.arm(m, visit, limit)
    continue_list(m, visit, calls.MAIN)


def _continue_cleanup(m: Agenda, visit: Visit) -> None:
    call, kept = visit.workflow, _kept(visit)
    cleanup = kept.scopes.pop(calls.CLEANUP, None)
    if cleanup is not None and call.verdict is not None and call.verdict.reason == "finally":
        call.stage = Stage.FINALLY
        visit.scopes[calls.CLEANUP] = cleanup
        ended_by = cleanup.verdict
        restore(m, cleanup)
        cleanup.verdict = ended_by
    reopening.resume_cleanup(m, visit, reopening.KEPT)


def _kept(visit: Visit) -> Unfinished:
    if visit.unfinished is None:
        visit.unfinished = Unfinished()
    return visit.unfinished
