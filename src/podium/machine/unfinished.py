"""What is kept of composites that fail or are stopped, so that a reopened run continues them.

A composite that failed is not repeated as a whole: iterations, branches and steps that completed are done. So
a list that fails or is stopped is kept in its composite, and a composite that fails, or any visit that is
stopped, is kept in its list. Completion discards all of that: a loop keeps its failed items only, and only
until it has succeeded. Items are kept packed, since there may be a hundred thousand of them.
"""

from collections.abc import Iterator

from podium.machine import checkpoint
from podium.machine.agenda import Agenda
from podium.machine.program import Kind
from podium.machine.tree import Outcome, Phase, Scope, Unfinished, Visit, status_of

_MAIN, _CLEANUP = 0, 2


# --- lists ----------------------------------------------------------------------------------------


def keep_list(visit: Visit, scope: Scope) -> None:
    """An item, a branch, a pass or the list of a group has closed without having completed."""
    status = status_of(scope)
    if status == "skipped":
        return
    node = visit.node
    if visit.verdict is not None and visit.verdict.status == "completed":
        return  # its join has succeeded, so it is not continued
    if status == "failed" and (node.step.allow_failure or node.kind is Kind.WHILE):
        return  # the failure is allowed, or the failed pass is followed by the next one
    if node.kind is Kind.FOR_EACH:
        _of(visit).items[scope.index] = (status, checkpoint.pack(scope))
    else:
        _of(visit).scopes[scope.index] = scope


def lists_of(m: Agenda, visit: Visit) -> Iterator[Scope]:
    """The lists that are kept of a visit."""
    kept = visit.unfinished
    if kept is None:
        return
    yield from kept.scopes.values()
    for _, packed in kept.items.values():
        yield checkpoint.unpack_list(m, packed, visit)


def was_stopped(scope: Scope) -> bool:
    """Whether a list was stopped at one of its steps, so that the step before it has not ended the list."""
    left = (scope.left or {}).values()
    return any(visit.unfinished is not None and visit.unfinished.phase is not None for visit in left)


def keep_stage(visit: Visit, scope: Scope) -> None:
    """The list of a call, or its `finally`, has closed. `finally` is continued only if the list completed."""
    call = visit.workflow
    if scope.index == _MAIN and not call.main_completed:
        kept = _of(visit)
        kept.scopes[_MAIN] = scope
        kept.context = dict(call.context)
    elif scope.index == _CLEANUP and call.main_completed:
        _of(visit).scopes[_CLEANUP] = scope


def keep_inside(visit: Visit, scope: Scope) -> None:
    """Keep a list of a visit that is discarded without an event in the log."""
    if visit.call is not None:
        keep_stage(visit, scope)
        return
    if status_of(scope) != "completed":
        keep_list(visit, scope)
    if visit.loop is not None and scope.verdict is None:
        visit.loop.cancelled += 1


# --- visits ---------------------------------------------------------------------------------------


def keep_failed(m: Agenda, visit: Visit, outcome: Outcome) -> None:
    """A visit leaves its list with an outcome; a composite that failed is kept."""
    scope, node = visit.scope, visit.node
    if scope.left is not None:
        if scope.graph is None and scope.block.discipline != "cleanup":
            scope.left = None  # in a flow, only the step that left last can end it
        else:
            scope.left.pop(node.index, None)
    failed = outcome.event in ("failure", "timeout") and not node.step.allow_failure
    if not failed or (visit.loop is None and visit.call is None):
        m.spending.close(visit)
        return
    _of(visit).account = m.spending.accounts.pop(visit.path, None) if len(m.spending.accounts) > 1 else None
    _leave(scope, visit)


def keep_end(visit: Visit, outcome: Outcome | None) -> None:
    """How an attempt that was being stopped ended; None: by being stopped."""
    _of(visit).outcome = outcome


def keep_stopped(m: Agenda, visit: Visit) -> None:
    """A visit was stopped, and leaves without having ended by itself."""
    scope, kept = visit.scope, _of(visit)
    kept.phase = _phase_of(visit)
    if m.at_verdict is None:
        # Otherwise a reopened run resumes the tree at the verdict, and its budgets are already in place.
        kept.account = m.spending.accounts.pop(visit.path, None) if len(m.spending.accounts) > 1 else None
    _leave(scope, visit)


def _phase_of(visit: Visit) -> Phase:
    if visit.phase is Phase.SETTLED and visit.stopping:
        return Phase.RUN  # a task that has answered
    return visit.phase


def _leave(scope: Scope, visit: Visit) -> None:
    visit.values = visit.answers = None
    visit.questions = ()
    if scope.left is None:
        scope.left = {}
    scope.left[visit.node.index] = visit


def _of(visit: Visit) -> Unfinished:
    if visit.unfinished is None:
        visit.unfinished = Unfinished()
    return visit.unfinished
