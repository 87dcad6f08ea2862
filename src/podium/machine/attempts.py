"""One step: entered, its condition checked, started, retried, settled, left.

An attempt that was started, or whose retry was announced, has its end in the log before the run's terminal
event.
"""

from typing import Any

from podium.expressions.evaluate import MISSING, EvaluationError
from podium.expressions.templates import fill_in, render
from podium.log.events import EventType
from podium.machine import (
    budgets,
    changes,
    graphs,
    holds,
    notifying,
    routing,
    stop_codes,
    unfinished,
)
from podium.machine.agenda import Agenda
from podium.machine.flow import Event
from podium.machine.program import GATE, TASK, Node
from podium.machine.publishing import message_of
from podium.machine.tree import DONE, READY, RUN, SETTLED, Outcome, Phase, Result, Scope, Visit, new_visit
from podium.machine.values import keeps, kept_inner, workflow_of
from podium.plan.plan import (
    Agent,
    Approval,
    Call,
    ForEach,
    Group,
    Parallel,
    Publish,
    Retry,
    Set,
    While,
)

# Exit code of a step that failed before it ran: a condition or a text that cannot be evaluated, a missing
# input.
FAILED_BEFORE_START = 125
TIMED_OUT = 124
# Limit for the delay that a server may request: one day.
_MAX_ASKED_MS = 24 * 3600 * 1000


# --- entering -------------------------------------------------------------------------------------


def enter(m: Agenda, scope: Scope, node: Node) -> None:
    """Create a visit of a step. It is live from now on; what follows is on the agenda."""
    attempt = scope.attempts.get(node.index, 0) + 1
    scope.attempts[node.index] = attempt
    scope.visits[node.index] = scope.visits.get(node.index, 0) + 1
    visit = new_visit(scope, node, attempt)
    scope.live[node.index] = visit
    m.visits += 1
    m.later("begin", visit)


def begin(m: Agenda, visit: Visit) -> None:
    """Evaluate `when`: once per visit, not per attempt."""
    node, scope = visit.node, visit.scope
    if node.index in scope.skips:
        scope.skips.remove(node.index)
        skip(m, visit, "OPERATOR_SKIP", "skipped by an operator")
        return
    if node.when is None:
        start(m, visit)
        return
    view = m.view(scope, visit.answers)
    try:
        answer = node.when(view)
    except EvaluationError as error:
        fail_before_start(m, visit, error)
        return
    if answer is None:
        visit.phase = Phase.PROBE
        visit.questions = tuple(dict.fromkeys(view.questions))
        visit.wait = m.timer_key(visit, "when")
        m.wait(visit.wait, visit)
    elif answer:
        start(m, visit)
    elif node.kind is GATE:
        gate(m, visit, passed=False)
    else:
        skip(m, visit, "CONDITION_FALSE", "`when` does not hold")


def start(m: Agenda, visit: Visit) -> None:
    """Start the body."""
    visit.phase = READY
    node = visit.node
    if node.kind is TASK:
        launch(m, visit)
        return
    if node.kind is GATE:
        gate(m, visit, passed=True)
        return
    match node.body:
        case Set():
            set_context(m, visit, node.body)
        case Publish():
            publish(m, visit, node.body)
        case Approval():
            ask(m, visit)
        case Call():
            m.rules.open_call(m, visit, node.body)
        case ForEach() | While() | Parallel() | Group():
            m.rules.open_loop(m, visit, node.body)


def launch(m: Agenda, visit: Visit) -> None:
    node, scope = visit.node, visit.scope
    body = changes.step_of(m, visit).body if m.changes else node.body
    if isinstance(body, Agent) and not budgets.reserve(m, visit, body):
        return
    visit.change = changes.change_of(m, visit.path)
    references = node.references + workflow_of(scope).program.shared
    if references:
        lookup = m.view(scope).lookup
        found = ((reference.path, lookup(reference.path)) for reference in references)
        visit.values = [(path, value) for path, value in found if value is not MISSING]
    visit.phase = RUN
    visit.started = visit.handed = False
    visit.wait = (visit.path, visit.attempt)
    m.wait(visit.wait, visit)


def gate(m: Agenda, visit: Visit, *, passed: bool) -> None:
    """A gate has only an end in the log, because it takes no time."""
    outcome = Outcome("success", 0) if passed else Outcome("failure", 1, reason="`when` does not hold")
    record_end(m, visit, outcome)
    settle(m, visit, outcome)


def set_context(m: Agenda, visit: Visit, body: Set) -> None:
    scope = visit.scope
    view = m.view(scope)
    try:
        values = {key: fill_in(data, view.lookup) for key, data in body.values.items()}
    except EvaluationError as error:
        fail_before_start(m, visit, error)
        return
    workflow_of(scope).context.update(values)
    m.report_context()
    outcome = Outcome("success", 0)
    record_end(m, visit, outcome)
    settle(m, visit, outcome)


def publish(m: Agenda, visit: Visit, body: Publish) -> None:
    try:
        message = message_of(body, m.view(visit.scope).lookup)
    except EvaluationError as error:
        fail_before_start(m, visit, error)
        return
    outcome = Outcome("success", 0)
    record_end(m, visit, outcome, publishes=[message])
    settle(m, visit, outcome)


def ask(m: Agenda, visit: Visit) -> None:
    """Ask a person and wait; the limit, if there is one, is suspended while the run is held."""
    step = changes.step_of(m, visit)
    body = step.body
    if not isinstance(body, Approval):
        return
    lookup = m.view(visit.scope).lookup
    try:
        asked: dict[str, Any] = {"message": render(body.message, lookup)}
        if body.assignee is not None:
            asked["assignee"] = render(body.assignee, lookup)
    except EvaluationError as error:
        fail_before_start(m, visit, error)
        return
    visit.phase = Phase.ASK
    visit.started = True
    visit.wait = (visit.path, visit.attempt, "ask")
    change = changes.change_of(m, visit.path)
    facts = {"approval": asked, **(change.facts if change is not None else {})}
    m.record(EventType.STEP_STARTED, visit.path, visit.attempt, facts)
    m.wait(visit.wait, visit)
    notifying.person_needed(m, visit, asked["message"])
    if step.timeout is not None:
        holds.arm(m, visit, step.timeout)


def expire(m: Agenda, visit: Visit) -> None:
    """The approval was not answered in time."""
    failure = {
        "category": "TIMEOUT",
        "code": "TIMEOUT",
        "message": "no answer in time",
        "retryable": False,
    }
    outcome = Outcome("timeout", TIMED_OUT, error=failure)
    record_end(m, visit, outcome)
    settle(m, visit, outcome)


# --- outcomes -------------------------------------------------------------------------------------


def fail_before_start(m: Agenda, visit: Visit, error: EvaluationError) -> None:
    """Fail without retries: another attempt would fail in the same way."""
    failure = {"category": "USER", "code": error.code, "message": str(error), "retryable": False}
    outcome = Outcome("failure", FAILED_BEFORE_START, error=failure)
    record_end(m, visit, outcome)
    settle(m, visit, outcome)


def skip(m: Agenda, visit: Visit, reason_code: str, reason: str) -> None:
    m.record(EventType.STEP_SKIPPED, visit.path, visit.attempt, {"reasonCode": reason_code, "reason": reason})
    settle(m, visit, Outcome("skipped", 0))


def record_end(m: Agenda, visit: Visit, outcome: Outcome, **facts: Any) -> None:
    """Record the end of a step that the machine itself executes."""
    if outcome.event == "success":
        payload = {"exitCode": outcome.exit_code, **facts}
        m.record(EventType.STEP_COMPLETED, visit.path, visit.attempt, payload)
        return
    error = outcome.error or {
        "category": "TIMEOUT" if outcome.event == "timeout" else "USER",
        "code": "FAILED",
        "message": outcome.reason,
        "retryable": True,
    }
    payload = {"exitCode": outcome.exit_code, "error": error, **facts}
    m.record(EventType.STEP_FAILED, visit.path, visit.attempt, payload)


def completed(m: Agenda, visit: Visit, payload: dict[str, Any]) -> None:
    """A task reports success."""
    budgets.charge(m, visit, payload)
    outcome = Outcome("success", _exit_code(payload, 0), facts=payload)
    if visit.stopping:
        # The success is recorded but has no effect, unless the run is reopened.
        m.rules.ended_late(m, visit, outcome)
        stopped(m, visit)
        return
    settle(m, visit, outcome)


def failed(m: Agenda, visit: Visit, payload: dict[str, Any]) -> None:
    budgets.charge(m, visit, payload)
    error = payload.get("error")
    error = error if isinstance(error, dict) else {}
    timed_out = error.get("category") == "TIMEOUT"
    exit_code = _exit_code(payload, TIMED_OUT if timed_out else 1)
    outcome = Outcome("timeout" if timed_out else "failure", exit_code, error=error, facts=payload)
    if visit.stopping:
        m.rules.ended_late(m, visit, None if stop_codes.is_stop(error) else outcome)
        stopped(m, visit)
        return
    after_failure(m, visit, outcome)


def _exit_code(payload: dict[str, Any], otherwise: int) -> int:
    code = payload.get("exitCode")
    return code if isinstance(code, int) else otherwise


def take_outcome(m: Agenda, visit: Visit, outcome: Outcome) -> None:
    """Apply an outcome that was known before the visit could act on it."""
    if outcome.event == "success":
        settle(m, visit, outcome)
    else:
        after_failure(m, visit, outcome)


def after_failure(m: Agenda, visit: Visit, outcome: Outcome) -> None:
    """Schedule the next attempt, else open the operator's window, else fail."""
    retry = changes.step_of(m, visit).retry if m.changes else visit.node.step.retry
    if retry is None:
        settle(m, visit, outcome)
    elif visit.tries < retry.attempts and _is_tried_again(retry, outcome):
        back_off(m, visit, retry, outcome)
    elif retry.operator:
        visit.phase = Phase.HELD
        visit.outcome = outcome
        visit.due = m.after(retry.operator)
        visit.wait = m.timer_key(visit, "operator")
        m.wait(visit.wait, visit)
        notifying.person_needed(m, visit, "it failed, and waits for a manual retry")
    else:
        settle(m, visit, outcome)


def _is_tried_again(retry: Retry, outcome: Outcome) -> bool:
    error = outcome.error or {}
    if error.get("retryable") is False:
        return False
    if not retry.on:
        return True
    if outcome.event == "timeout" and "timeout" in retry.on:
        return True
    if error.get("code") == "RATE_LIMIT" and "rate_limit" in retry.on:
        return True
    return outcome.event != "timeout" and outcome.exit_code in retry.on


def back_off(m: Agenda, visit: Visit, retry: Retry, outcome: Outcome) -> None:
    tries = visit.tries
    delay = retry.delay * tries if retry.backoff == "linear" else retry.delay * 2 ** min(tries - 1, 60)
    delay = min(delay, retry.max_delay)
    asked = (outcome.error or {}).get("retryAfterMs")
    if isinstance(asked, int | float):
        # The server's delay takes precedence: an earlier attempt would be rejected again.
        delay = max(delay, min(asked, _MAX_ASKED_MS) / 1000)
    due = m.after(delay)
    m.record(
        EventType.STEP_RETRY_SCHEDULED,
        visit.path,
        visit.attempt,
        {"due": due, "nextAttempt": visit.attempt + 1},
    )
    next_attempt(visit)
    visit.tries += 1
    visit.phase = Phase.BACKOFF
    visit.due = due
    visit.wait = m.timer_key(visit, "retry")
    m.wait(visit.wait, visit)


def next_attempt(visit: Visit) -> None:
    visit.attempt += 1
    visit.scope.attempts[visit.node.index] = visit.attempt
    visit.outcome = visit.verdict = None
    visit.started = visit.handed = False
    visit.values = None
    visit.goto = None


def try_again(m: Agenda, visit: Visit) -> None:
    """Uses the agenda, so that a hold delays it."""
    visit.phase = READY
    visit.wait = visit.due = None
    m.later("start", visit)


def interrupted(m: Agenda, visit: Visit) -> None:
    """It is unknown whether the attempt took effect. Only a step that may not be repeated blindly becomes
    doubtful.
    """
    node = visit.node
    m.spending.release(visit)
    if visit.stopping:
        m.rules.ended_late(m, visit, None)
        stopped(m, visit)
        return
    match node.step.on_doubt:
        case "retry":
            next_attempt(visit)
            try_again(m, visit)
        case "fail":
            message = "interrupted; whether it happened is not known"
            error = {"category": "PLATFORM", "code": "IN_DOUBT", "message": message, "retryable": False}
            settle(m, visit, Outcome("failure", 1, error=error))
        case "ask":
            visit.phase = Phase.DOUBT
            visit.wait = (visit.path, visit.attempt, "ask")
            m.wait(visit.wait, visit)
            notifying.person_needed(m, visit, "it was interrupted; whether it happened is not known")


# --- settling and leaving -------------------------------------------------------------------------


def settle(m: Agenda, visit: Visit, outcome: Outcome) -> None:
    """Set the outcome of the visit. Where it leads is decided on the agenda: while the run is held, nothing
    moves.
    """
    visit.phase = SETTLED
    visit.outcome = outcome
    visit.wait = None
    if visit.node.notifies:
        notifying.step_ended(m, visit, outcome)
    holds.disarm(m, visit)
    m.later("leave", visit)


def stopped(m: Agenda, visit: Visit) -> None:
    """A task that was asked to stop has answered. What that closes is decided on the agenda, as for any other
    end.
    """
    visit.phase = SETTLED
    visit.wait = None
    m.later("leave", visit)


def leave(m: Agenda, visit: Visit) -> None:
    if visit.stopping:
        drop(m, visit)
        return
    scope, node, outcome = visit.scope, visit.node, visit.outcome
    if outcome is None:
        outcome = recorded_outcome(scope, node)
    else:
        scope.results[node.step_id] = result_of(m, visit, outcome)
        scope.cause = node.index
        scope.cause_goto = visit.goto
        if scope.left is None and outcome.event == "success":
            m.spending.close(visit)
        else:
            unfinished.keep_failed(m, visit, outcome)
    _gone(visit)
    if scope.stopping:
        m.rules.close_if_empty(m, scope)
    elif visit.goto is not None:
        routing.go_to(m, scope, visit.goto)
    elif scope.graph is not None:
        graphs.ended(m, scope, scope.graph, node, outcome)
    else:
        routing.route(m, scope, node, outcome)


def leave_again(m: Agenda, scope: Scope, node: Node) -> None:
    """In a reopened run: route the outcome of a step that has left and must not run again."""
    visit = new_visit(scope, node, scope.attempts[node.index])
    visit.phase = SETTLED
    visit.goto = scope.cause_goto if node.index == scope.cause else None
    scope.live[node.index] = visit
    m.later("leave", visit)


def take_up(m: Agenda, scope: Scope, node: Node) -> None:
    """In a reopened run: resume the step that caused the verdict. Only one that failed runs again; a
    composite continues.
    """
    kept = scope.left.pop(node.index, None) if scope.left is not None else None
    if not routing.has_failed(recorded_outcome(scope, node), node):
        leave_again(m, scope, node)
    elif kept is None:
        enter(m, scope, node)
    else:
        scope.live[node.index] = kept
        m.rules.continue_failed(m, kept)


def recorded_outcome(scope: Scope, node: Node) -> Outcome:
    """The outcome of a step that has left, with the fields that routing needs."""
    result = scope.results[node.step_id]
    event: Event = "success" if result.status == "completed" else "skipped"
    if result.status == "failed":
        event = "timeout" if result.timed_out else "failure"
    return Outcome(event, result.exit_code or 0)


def drop(m: Agenda, visit: Visit) -> None:
    """The visit was stopped and leaves without an outcome."""
    scope = visit.scope
    holds.disarm(m, visit)
    m.spending.release(visit)
    unfinished.keep_stopped(m, visit)
    _gone(visit)
    m.rules.close_if_empty(m, scope)


def _gone(visit: Visit) -> None:
    del visit.scope.live[visit.node.index]
    visit.phase = DONE


_STATUS = {"success": "completed", "failure": "failed", "timeout": "failed", "skipped": "skipped"}


def result_of(m: Agenda, visit: Visit, outcome: Outcome) -> Result:
    node, scope = visit.node, visit.scope
    result = Result(
        _STATUS[outcome.event],
        None if outcome.event == "skipped" else outcome.exit_code,
        visit.attempt,
        scope.visits[node.index],
        timed_out=outcome.event == "timeout",
    )
    if node.kept:
        facts = outcome.facts or {}
        if keeps(node, "completed_at"):
            facts = {**facts, "completed_at": m.now}
        if keeps(node, "error") and outcome.error is not None:
            facts = {**facts, "error": outcome.error}
        result.facts = {name: value for name, value in _named(facts) if keeps(node, name)}
        if outcome.inner is not None:
            result.inner = kept_inner(node, outcome.inner)
    return result


def _named(payload: dict[str, Any]) -> Any:
    """The facts of a payload by the names that references use."""
    for key, value in payload.items():
        match key:
            case "durationMs":
                yield "duration", value / 1000 if isinstance(value, int | float) else None
            case "stderrTail":
                yield "stderr_tail", value
            case "outputBytes":
                yield "output_bytes", value
            case "statusCode":
                yield "status_code", value
            case "claimedBy":
                yield "claimed_by", value
            case "byMethod":
                yield "by_method", value
            case "output" if isinstance(value, str):
                # Strip the final newline, as command substitution does: tools end their output with one.
                yield key, value.rstrip("\n")
            case _:
                yield key, value
