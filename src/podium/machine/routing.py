"""Where an outcome leads in a list of steps: to the next one, to another one, or out of the list."""

from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import render
from podium.machine.agenda import Agenda
from podium.machine.flow import NEXT, Way
from podium.machine.program import Node
from podium.machine.tree import Outcome, Scope, Verdict
from podium.machine.values import workflow_of
from podium.plan.plan import Break, Continue, End, Error, ErrorStep, Goto, Target

# Exit codes of a run that its main list ends.
FAILED = 1
NO_TRANSITION = 4
# A last safeguard against infinite loops.
MAX_VISITS = 10_000_000


def route(m: Agenda, scope: Scope, node: Node, outcome: Outcome) -> None:
    passed = node.step.allow_failure and outcome.event in ("failure", "timeout")
    way = node.ways["success" if passed else outcome.event]
    if way is NEXT:
        if outcome.event in ("failure", "timeout") and not passed:
            scope.failed_unhandled = True
        resume_list(m, scope, node.index + 1)
    elif way is Way.FAILED:
        end_scope(m, scope, Verdict("failed", FAILED, "step_failed", _failure(node, outcome), _code(outcome)))
    elif way is Way.NO_TRANSITION:
        reason = f"step '{node.step_id}' ended with {outcome.event}, which its 'on' does not name"
        end_scope(m, scope, Verdict("failed", NO_TRANSITION, "no_transition", reason))
    else:
        follow(m, scope, way, None if passed else outcome)


def follow(m: Agenda, scope: Scope, target: Target, outcome: Outcome | None) -> None:
    """Follow a handler's target. `outcome` None: a failure that is allowed and so does not count."""
    match target:
        case Goto():
            go_to(m, scope, target.step)
        case Break() | Continue():
            m.rules.leave_iteration(m, scope, outcome, breaks=isinstance(target, Break))
        case End():
            m.rules.end_workflow(m, scope, Verdict("completed"))
        case ErrorStep():
            m.rules.end_workflow(m, scope, Verdict("failed", FAILED, "error", "_error"), aimed_at_error=True)
        case Error():
            try:
                message = render(target.message, m.view(scope).lookup)
            except EvaluationError as problem:
                message = str(problem)
            m.rules.end_workflow(m, scope, Verdict("failed", FAILED, "error", message))


def resume_list(m: Agenda, scope: Scope, index: int) -> None:
    """The next step of the list, or its end."""
    nodes = scope.block.nodes
    while index == scope.block.entry or (scope.kept and index in scope.kept):
        index += 1
    if index < len(nodes) and scope.kept is not None and scope.left is not None and index in scope.left:
        # In a `finally` that is continued: a composite that failed.
        m.rules.take_up(m, scope, nodes[index])
    elif index < len(nodes):
        visit_node(m, scope, nodes[index])
    else:
        end_scope(m, scope, Verdict("completed"))


def visit_node(m: Agenda, scope: Scope, node: Node) -> None:
    """Enter a step, unless that would loop forever."""
    visited = scope.visits.get(node.index, 0)
    if visited:
        scope.gotos += 1
    most = node.step.max_visits
    if (
        (visited and scope.gotos > workflow_of(scope).program.workflow.max_transitions)
        or (most is not None and visited >= most)
        or m.visits >= MAX_VISITS
    ):
        failure = f"step '{node.step_id}' was visited {visited} times and would be visited again"
        m.rules.end_workflow(m, scope, Verdict("failed", FAILED, "cycle_guard", failure))
        return
    m.rules.enter(m, scope, node)


def go_to(m: Agenda, scope: Scope, step: str) -> None:
    """Continue at a step of this list or of one around it; each loop on the way ends."""
    if step in scope.block.index:
        visit_node(m, scope, scope.block.nodes[scope.block.index[step]])
    else:
        m.rules.leave_by_goto(m, scope, step)


def end_scope(m: Agenda, scope: Scope, verdict: Verdict) -> None:
    """End the list with its verdict; nothing in a flow is live any more."""
    scope.verdict = verdict
    m.rules.close_if_empty(m, scope)


def _failure(node: Node, outcome: Outcome) -> str:
    message = (outcome.error or {}).get("message") or outcome.reason or f"exit code {outcome.exit_code}"
    timed_out = " timed out" if outcome.event == "timeout" else " failed"
    return f"step '{node.step_id}'{timed_out}: {message}"


def _code(outcome: Outcome) -> str:
    return str((outcome.error or {}).get("code") or "")


def has_failed(outcome: Outcome, node: Node) -> bool:
    """Whether a visit has failed and the failure was not allowed."""
    return outcome.event in ("failure", "timeout") and not node.step.allow_failure
