"""A list with dependencies: which steps are ready, and how a failure affects their dependants.

Each step counts down its dependencies. A step skipped by its condition satisfies its dependants; one that
failed, or was skipped because of a failure, does not: its dependants are skipped in turn, once all their
dependencies have ended. All of it can be reversed: RETRY_STEP in an open graph is the exact inverse.
"""

from collections.abc import Callable
from typing import Final

from podium.log.events import EventType
from podium.machine import routing
from podium.machine.agenda import Agenda
from podium.machine.flow import Way
from podium.machine.program import Node
from podium.machine.tree import GraphState, Outcome, Result, Scope, Verdict, new_graph

WAITING: Final = 0
LIVE: Final = 1
GOOD: Final = 2
BAD: Final = 3
# Skipped because a dependency failed.
LEFT_OUT: Final = 4
# Its handler ended the workflow; its dependants were not notified.
ENDING: Final = 5


def begin(m: Agenda, scope: Scope) -> None:
    graph = new_graph(scope.block)
    scope.graph = graph
    for node in scope.block.nodes:
        if graph.unmet[node.index] == 0:
            _ready(m, scope, graph, node)


def ended(m: Agenda, scope: Scope, graph: GraphState, node: Node, outcome: Outcome) -> None:
    failed = routing.has_failed(outcome, node)
    way = node.ways[outcome.event if failed or outcome.event == "skipped" else "success"]
    if not isinstance(way, Way):
        graph.states[node.index] = ENDING
        graph.open -= 1
        routing.follow(m, scope, way, outcome)
        return
    if failed:
        graph.failures += 1
        graph.messages[node.index] = (outcome.error or {}).get("message") or f"exit code {outcome.exit_code}"
        if node.step.error_action == "stop":
            graph.stop_failures += 1
    _settled(m, scope, graph, node, BAD if failed else GOOD)
    _end_if_done(m, scope, graph)


def _ready(m: Agenda, scope: Scope, graph: GraphState, node: Node) -> None:
    """All dependencies of the step have ended."""
    if graph.failed[node.index]:
        _leave_out(m, scope, graph, node)
    elif graph.stop_failures:
        graph.held_back.append(node.index)
    else:
        graph.states[node.index] = LIVE
        m.rules.enter(m, scope, node)


def _settled(m: Agenda, scope: Scope, graph: GraphState, node: Node, state: int) -> None:
    """Count down for the dependants; iterative, because a chain of left-out steps may be long."""
    graph.states[node.index] = state
    graph.open -= 1
    pending = [(node.index, state)]
    while pending:
        index, how = pending.pop()
        for dependent in scope.block.dependents[index]:
            graph.unmet[dependent] -= 1
            if how in (BAD, LEFT_OUT):
                graph.failed[dependent] += 1
            if graph.unmet[dependent] == 0:
                waiting = scope.block.nodes[dependent]
                _ready(m, scope, graph, waiting)
                if graph.states[dependent] == LEFT_OUT:
                    pending.append((dependent, LEFT_OUT))


def _leave_out(m: Agenda, scope: Scope, graph: GraphState, node: Node) -> None:
    attempt = scope.attempts.get(node.index, 0) + 1
    scope.attempts[node.index] = attempt
    scope.visits[node.index] = scope.visits.get(node.index, 0) + 1
    graph.states[node.index] = LEFT_OUT
    graph.open -= 1
    scope.results[node.step_id] = Result("skipped", None, attempt, scope.visits[node.index])
    payload = {"reasonCode": "DEPENDENCY_FAILED", "reason": "a step it depends on has failed"}
    m.record(EventType.STEP_SKIPPED, scope.prefix + node.step_id, attempt, payload)


def _end_if_done(m: Agenda, scope: Scope, graph: GraphState) -> None:
    if scope.live:
        return
    if graph.open and graph.stop_failures:
        for index in sorted(graph.held_back):
            _hold_back_for_good(m, scope, graph, scope.block.nodes[index])
        for waiting in scope.block.nodes:
            if graph.states[waiting.index] == WAITING:
                _leave_out(m, scope, graph, waiting)
    if graph.open:
        return
    verdict = Verdict("completed")
    if graph.failures:
        verdict = Verdict("failed", routing.FAILED, "step_failed", _failure_of(scope, graph))
    routing.end_scope(m, scope, verdict)


def _failure_of(scope: Scope, graph: GraphState) -> str:
    """The failure message, independent of which step ended last."""
    failed = [node for node in scope.block.nodes if graph.states[node.index] == BAD]
    if len(failed) == 1 and failed[0].index in graph.messages:
        return f"step '{failed[0].step_id}': {graph.messages[failed[0].index]}"
    return f"failed: {', '.join(node.step_id for node in failed[:10])}"


def _hold_back_for_good(m: Agenda, scope: Scope, graph: GraphState, node: Node) -> None:
    if graph.states[node.index] == WAITING:
        _leave_out(m, scope, graph, node)


def retry(
    m: Agenda,
    scope: Scope,
    node: Node,
    again: Callable[[Agenda, Scope, Node], None] | None = None,
) -> bool:
    """Reverse the failure of a step and everything that followed from it; the step runs as its next attempt."""
    graph = scope.graph
    if graph is None or graph.states[node.index] != BAD or scope.verdict is not None or scope.stopping:
        return False
    graph.failures -= 1
    graph.messages.pop(node.index, None)
    if node.step.error_action == "stop":
        graph.stop_failures -= 1
    _take_back(scope, graph, node.index)
    graph.states[node.index] = LIVE
    (again or m.rules.enter)(m, scope, node)
    if not graph.stop_failures:
        held_back, graph.held_back = graph.held_back, []
        for index in held_back:
            _ready(m, scope, graph, scope.block.nodes[index])
    return True


def repeat(m: Agenda, scope: Scope, node: Node) -> bool:
    """Run a step again that has not failed, unless one of its dependants was decided since."""
    graph = scope.graph
    if graph is None or graph.states[node.index] != GOOD or scope.verdict is not None or scope.stopping:
        return False
    dependents = scope.block.dependents[node.index]
    if any(graph.states[dependent] != WAITING for dependent in dependents):
        return False
    for dependent in dependents:
        graph.unmet[dependent] += 1
    graph.held_back = [index for index in graph.held_back if index not in dependents]
    graph.open += 1
    graph.states[node.index] = LIVE
    m.rules.enter(m, scope, node)
    return True


def ending_nodes(scope: Scope, graph: GraphState) -> list[Node]:
    """The steps that failed, or whose handlers ended the workflow."""
    return [node for node in scope.block.nodes if graph.states[node.index] in (BAD, ENDING)]


def resume_list(m: Agenda, scope: Scope, graph: GraphState) -> None:
    """In a reopened run: failed steps run again, and steps left out because of them wait again."""
    for node in scope.block.nodes:
        index = node.index
        if graph.states[index] == LEFT_OUT and (graph.unmet[index] or not graph.failed[index]):
            # Left out at the end, because nothing new was to start.
            graph.states[index] = WAITING
            graph.open += 1
        elif graph.states[index] == ENDING:
            graph.states[index] = LIVE
            graph.open += 1
            m.rules.take_up(m, scope, node)
    for node in scope.block.nodes:
        if graph.states[node.index] == BAD:
            retry(m, scope, node, m.rules.take_up)


def _take_back(scope: Scope, graph: GraphState, step: int) -> None:
    graph.open += 1
    pending = [step]
    while pending:
        for dependent in scope.block.dependents[pending.pop()]:
            graph.unmet[dependent] += 1
            graph.failed[dependent] -= 1
            if graph.states[dependent] == LEFT_OUT:
                graph.states[dependent] = WAITING
                graph.open += 1
                pending.append(dependent)
