"""Steps that contain lists: groups, branches, for_each, while, repeat_until.

A finished iteration is immediately folded into counters and discarded, unless the plan reads it later: a loop
over a hundred thousand items needs no more memory at its end than at its start.
"""

from typing import Any

from podium.expressions.evaluate import EvaluationError
from podium.log.events import EventType
from podium.machine import (
    attempts,
    graphs,
    holds,
    joins,
    routing,
    stop_codes,
    unfinished,
)
from podium.machine.agenda import Agenda
from podium.machine.program import FOR_EACH, GROUP, PARALLEL, WHILE, BlockProgram
from podium.machine.tree import (
    INTERVAL,
    OPEN,
    InnerResults,
    Iteration,
    Loop,
    Outcome,
    Phase,
    Scope,
    Verdict,
    Visit,
    new_loop,
    new_scope,
    prefix_of,
    status_of,
)
from podium.machine.values import items_of, keeps
from podium.plan.plan import ForEach, Group, Parallel, While


def open_loop(m: Agenda, visit: Visit, body: ForEach | While | Parallel | Group) -> None:
    """Start a composite: it is open until everything inside it has closed."""
    node = visit.node
    visit.scopes = {}
    visit.loop = visit.unfinished = None
    match body:
        case ForEach():
            items = _items(m, visit)
            if items is None:
                return
            visit.loop = new_loop(m.surroundings.measured, total=len(items))
            visit.loop.items = items
            visit.loop.own_items = None if node.items_again else items
        case Parallel():
            visit.loop = new_loop(m.surroundings.measured, total=len(node.branches))
        case _:
            visit.loop = new_loop(m.surroundings.measured)
    visit.phase = OPEN
    m.spending.open(visit.path, body.budget)
    m.record(EventType.STEP_STARTED, visit.path, visit.attempt, {})
    limit = limit_of(visit)
    if limit is not None:
        holds.arm(m, visit, limit)
    match body:
        case While(until=True):
            start_pass(m, visit)
        case While():
            check(m, visit)
        case Group():
            open_scope(m, visit, node.block, f"{prefix_of(visit)}/", 0)
        case _:
            fill(m, visit)


def limit_of(visit: Visit) -> float | None:
    node = visit.node
    timeout = node.step.timeout
    if not isinstance(node.body, While):
        return timeout
    return node.body.max_duration if timeout is None else min(timeout, node.body.max_duration)


def _items(m: Agenda, visit: Visit) -> list[Any] | None:
    """The items are fixed at entry. None: they could not be evaluated, and the visit has failed."""
    node, scope = visit.node, visit.scope
    try:
        return items_of(m.view(scope), node)
    except EvaluationError as error:
        attempts.fail_before_start(m, visit, error)
        return None


def open_scope(
    m: Agenda,
    owner: Visit,
    block: BlockProgram,
    prefix: str,
    index: int,
    *,
    entry: int = 0,
    spent: dict[int, int] | None = None,
) -> Scope:
    """Start a list. It has a live visit from the start. `spent`: attempts that are in the log already."""
    scope = new_scope(owner, block, prefix, index)
    scope.attempts.update(spent or {})
    owner.scopes[index] = scope
    if owner.node.kind in (WHILE, PARALLEL):
        m.report_scope(scope, "running")
    if block.is_graph:
        graphs.begin(m, scope)
        if not scope.live and not block.nodes:
            routing.end_scope(m, scope, Verdict("completed"))
    elif block.nodes:
        attempts.enter(m, scope, block.nodes[entry])
    else:
        routing.end_scope(m, scope, Verdict("completed"))
    return scope


# --- items and branches ---------------------------------------------------------------------------


def fill(m: Agenda, visit: Visit) -> None:
    """Start as many items as there are free slots; close the loop if nothing is left to do."""
    loop = visit.progress
    loop.pending = False
    if not _continues(visit):
        return
    room = visit.node.workers - len(visit.scopes)
    while room > 0 and loop.again:
        room -= 1
        m.rules.continue_list(m, visit, loop.again.pop(0))
    while room > 0 and not loop.stopped and loop.index < loop.total:
        index = loop.index
        loop.index += 1
        loop.started += 1
        room -= 1
        _start_item(m, visit, loop, index)
    if not visit.scopes and (loop.stopped or loop.index >= loop.total):
        close(m, visit)


def _continues(visit: Visit) -> bool:
    """False if what was on the agenda is obsolete because of a limit, a verdict, or a stop from outside."""
    return visit.phase is OPEN and not visit.stopping and visit.verdict is None


def _start_item(m: Agenda, visit: Visit, loop: Loop, index: int) -> None:
    node = visit.node
    if node.kind is PARALLEL:
        open_scope(m, visit, node.branches[index], f"{prefix_of(visit)}/", index)
        return
    scope = new_scope(visit, node.block, f"{prefix_of(visit)}[{index}]/", index, loop.items[index])
    visit.scopes[index] = scope
    m.report_scope(scope, "running")
    if node.block.is_graph:
        graphs.begin(m, scope)
    else:
        attempts.enter(m, scope, node.block.nodes[0])


def scope_closed(m: Agenda, visit: Visit, scope: Scope) -> None:
    """Everything in one iteration, branch or pass has ended."""
    node = visit.node
    del visit.scopes[scope.index]
    if scope.verdict is None or scope.verdict.status != "completed":
        unfinished.keep_list(visit, scope)
    if node.kind is WHILE:
        _pass_closed(m, visit, scope)
    elif node.kind is GROUP:
        _group_closed(m, visit, scope)
    else:
        _item_closed(m, visit, scope)


def _group_closed(m: Agenda, visit: Visit, scope: Scope) -> None:
    if visit.verdict is None:
        visit.verdict = scope.verdict
    node = visit.node
    if keeps(node, "steps") and visit.loop is not None:
        visit.loop.branches = scope.results
    close(m, visit)


def _item_closed(m: Agenda, visit: Visit, scope: Scope) -> None:
    node, loop = visit.node, visit.progress
    status = status_of(scope)
    _count(m, loop, scope, status)
    if node.kind is PARALLEL:
        name = node.branches[scope.index].nodes[0].step_id
        if name in scope.results:
            loop.branches[name] = scope.results[name]
    elif keeps(node, "iterations"):
        loop.iterations[scope.index] = Iteration(scope.index, scope.item, status, scope.results)
    if keeps(node, "last") and scope.index >= loop.last_index:
        # Of concurrent items, the last in the list: the result must not depend on which one ends last.
        loop.last = scope.results
        loop.last_index = scope.index
    if visit.verdict is None and not visit.stopping:
        _decide(m, visit, loop)
    if visit.stopping or visit.verdict is not None:
        if not visit.scopes:
            close(m, visit)
    elif not loop.pending:
        loop.pending = True
        m.later("fill", visit)


def _count(m: Agenda, loop: Loop, scope: Scope, status: str) -> None:
    match status:
        case "completed":
            loop.completed += 1
        case "failed":
            loop.failed += 1
        case "skipped":
            loop.skipped += 1
        case _:
            loop.cancelled += 1
    m.report_scope(scope, status)


def _decide(m: Agenda, visit: Visit, loop: Loop) -> None:
    """Check whether the join is certain; then the rest is stopped, or allowed to finish."""
    join = visit.node.join
    total = loop.started if loop.stopped else loop.total
    verdict = joins.decided(
        join, total=total, completed=loop.completed, failed=loop.failed, others=loop.skipped + loop.cancelled
    )
    if verdict is None:
        return
    loop.stopped = True
    if verdict == "success":
        visit.verdict = Verdict("completed")
    else:
        failure = f"{loop.failed} of {total} failed"
        visit.verdict = Verdict("failed", routing.FAILED, "join", failure, "JOIN_FAILED")
    if join.rest == "cancel":
        m.rules.stop_scopes(m, visit, "JOIN_DECIDED")


# --- passes ---------------------------------------------------------------------------------------


def check(m: Agenda, visit: Visit) -> None:
    """Ask the condition: at entry and right after each pass."""
    node, loop = visit.node, visit.progress
    body = node.body
    loop.pending = False
    if not _continues(visit) or not isinstance(body, While):
        return
    # Evaluated in the body's scope, with the results of the newest pass.
    scope = new_scope(visit, node.block, "", max(loop.index - 1, 0))
    scope.results = loop.last or {}
    view = m.view(scope, visit.answers)
    try:
        answer = node.condition(view)
    except EvaluationError as error:
        failure = {"category": "USER", "code": error.code, "message": str(error), "retryable": False}
        visit.verdict = Verdict("failed", attempts.FAILED_BEFORE_START, "condition", str(error), error.code)
        loop.exit_reason = "error"
        close(m, visit, error=failure)
        return
    if answer is None:
        visit.phase = Phase.COND
        visit.questions = tuple(dict.fromkeys(view.questions))
        visit.wait = m.timer_key(visit, "pass")
        m.wait(visit.wait, visit)
        return
    visit.answers = None
    if answer is body.until:
        visit.verdict = Verdict("completed")
        loop.exit_reason = "condition"
        close(m, visit)
    elif (passes := loop.index - loop.first_counted) >= body.max_iterations:
        loop.exit_reason = "max_iterations"
        visit.verdict = Verdict(
            "timeout", attempts.TIMED_OUT, "max_iterations", f"{passes} passes, the maximum"
        )
        close(m, visit)
    elif loop.index and body.check_interval:
        visit.phase = INTERVAL
        visit.due = m.after(body.check_interval)
        visit.wait = m.timer_key(visit, "interval")
        m.wait(visit.wait, visit)
    else:
        start_pass(m, visit)


def next_pass(m: Agenda, visit: Visit) -> None:
    """The interval is over; uses the agenda, so that a hold delays the pass."""
    visit.phase = OPEN
    visit.wait = visit.due = None
    m.later("pass", visit)


def start_pass(m: Agenda, visit: Visit) -> None:
    node, loop = visit.node, visit.progress
    if not _continues(visit):
        return
    index = loop.index
    loop.index += 1
    loop.started += 1
    open_scope(m, visit, node.block, f"{prefix_of(visit)}[{index}]/", index)


def _pass_closed(m: Agenda, visit: Visit, scope: Scope) -> None:
    node, loop = visit.node, visit.progress
    status = "failed" if scope.failed_unhandled and status_of(scope) == "completed" else status_of(scope)
    _count(m, loop, scope, status)
    # Kept even if no reference reads it, because the condition does.
    loop.last = scope.results
    if keeps(node, "iterations"):
        loop.iterations[scope.index] = Iteration(scope.index, None, status, scope.results)
    if visit.stopping or visit.verdict is not None:
        close(m, visit)
    elif loop.stopped:
        visit.verdict = Verdict("completed")
        close(m, visit)
    else:
        loop.pending = True
        m.later("check", visit)


# --- leaving --------------------------------------------------------------------------------------


def leave_iteration(m: Agenda, scope: Scope, outcome: Outcome | None, *, breaks: bool) -> None:
    """`_loop_break` and `_loop_continue` leave every block up to the innermost loop."""
    inner = scope
    while inner.owner.node.kind not in (FOR_EACH, WHILE):
        inner = inner.owner.scope
    loop = inner.owner.progress
    from_failure = outcome is not None and outcome.event in ("failure", "timeout")
    if breaks:
        loop.stopped = True
        loop.exit_reason = "break"
    inner.verdict = Verdict("skipped" if from_failure else "completed")
    m.rules.stop(m, inner, "SCOPE_CLOSED")


def leave_by_goto(m: Agenda, scope: Scope, step: str) -> None:
    """A goto out of loops: each loop on the way completes with that reason, then the run continues at the
    step.

    Nothing else is live in any of them, because `goto` cannot leave concurrent branches.
    """
    leaving, visit = scope, scope.owner
    while step not in leaving.block.index:
        leaving.verdict = Verdict("completed")
        leaving.stopping = True
        visit = leaving.owner
        visit.verdict = Verdict("completed", reason="goto")
        visit.progress.stopped = True
        visit.progress.exit_reason = "goto"
        leaving = visit.scope
    visit.goto = step
    m.rules.close_if_empty(m, scope)


def timed_out(m: Agenda, visit: Visit) -> None:
    """The limit of a composite has expired: what runs is stopped, then the event is `timeout`. An earlier
    verdict is kept.
    """
    if visit.verdict is None:
        is_pass = visit.node.kind is WHILE
        reason = "max_duration" if is_pass else "timeout"
        if visit.loop is not None:
            visit.loop.exit_reason = reason
        visit.verdict = Verdict("timeout", attempts.TIMED_OUT, reason, "it took too long")
    if visit.loop is not None:
        visit.loop.stopped = True
    if visit.wait is not None:
        # An interval or a probe is dropped immediately.
        m.forget(visit.wait)
        visit.wait = visit.due = None
        visit.phase = OPEN
    m.rules.stop_scopes(m, visit, "CANCELLED")
    if not visit.scopes:
        close(m, visit)


def close(m: Agenda, visit: Visit, *, error: dict[str, Any] | None = None) -> None:
    """Nothing inside is live: the composite has its outcome, or was stopped."""
    if visit.phase is not OPEN:
        return  # already closed: stopping the last scope did it
    loop = visit.progress
    holds.disarm(m, visit)
    if visit.stopping:
        stop_codes.record_stopped(m, visit, visit.stop_code)
        attempts.drop(m, visit)
        return
    if loop.again:
        m.rules.leave_to_next_opening(visit, loop)
    verdict = visit.verdict
    if verdict is None:
        verdict = _counted(visit, loop)
    recorded, facts, inner = _facts(visit, loop, verdict)
    if verdict.status in ("completed", "skipped"):
        visit.unfinished = None
        outcome = Outcome("success", 0, facts=facts, inner=inner)
        attempts.record_end(m, visit, outcome, **recorded)
        attempts.settle(m, visit, outcome)
        return
    event: Any = "timeout" if verdict.status == "timeout" else "failure"
    failure = error or {
        "category": "TIMEOUT" if event == "timeout" else "USER",
        "code": verdict.code or (verdict.reason or "failed").upper(),
        "message": verdict.error or verdict.reason or "failed",
        "retryable": True,
    }
    outcome = Outcome(event, verdict.exit_code or routing.FAILED, error=failure, facts=facts, inner=inner)
    attempts.record_end(m, visit, outcome, **recorded)
    attempts.after_failure(m, visit, outcome)


def _counted(visit: Visit, loop: Loop) -> Verdict:
    """The join over what was started, if nothing decided it earlier: after a break, or without any items."""
    total = loop.started if loop.stopped else loop.total
    verdict = joins.decided(
        visit.node.join,
        total=total,
        completed=loop.completed,
        failed=loop.failed,
        others=loop.skipped + loop.cancelled,
    )
    if verdict == "failure":
        return Verdict("failed", routing.FAILED, "join", f"{loop.failed} of {total} failed", "JOIN_FAILED")
    return Verdict("completed")


def _facts(visit: Visit, loop: Loop, verdict: Verdict) -> tuple[dict[str, Any], dict[str, Any], InnerResults]:
    """What is recorded in the log, and what references can read: facts, and the results of steps inside."""
    node = visit.node
    if node.kind is GROUP:
        return {}, {"output": ""}, InnerResults(steps=loop.branches)
    summary = {
        "count": loop.started,
        "total": loop.total if node.kind is not WHILE else loop.started,
        "success_count": loop.completed,
        "failure_count": loop.failed,
        "skipped_count": loop.skipped,
        "cancelled_count": loop.cancelled,
        "success_rate": loop.completed / loop.started if loop.started else 1,
    }
    recorded: dict[str, Any] = {"summary": summary}
    reason = loop.exit_reason or verdict.reason
    if reason:
        recorded["exitReason"] = reason
    facts: dict[str, Any] = {"summary": summary, "output": "", "exit_reason": reason or None}
    if node.kind is PARALLEL:
        return recorded, facts, InnerResults(branches=loop.branches)
    return recorded, facts, InnerResults(iterations=loop.iterations, last=loop.last)
