"""What must be true of a machine after every event, counted again from the tree."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from podium.machine import Machine, graphs, joins, loops
from podium.machine.accounts import Amount
from podium.machine.program import Kind
from podium.machine.tree import Phase, Scope, Stage, Visit
from podium.plan.plan import Agent, ForEach, Parallel


def visits_of(visit: Visit) -> Iterator[Visit]:
    yield visit
    for scope in visit.scopes.values():
        for inner in scope.live.values():
            yield from visits_of(inner)


def check(m: Machine) -> None:
    if m.terminal:
        assert m.root is None
        assert not m.waits
        assert not m.agenda
        assert m.outstanding() == []
        assert m.obligations() == []
        return
    assert m.obligations(), "an open run that waits for nothing"
    assert not m.inconsistent
    if m.root is None:
        return
    visits = list(visits_of(m.root))
    _check_waits(m, visits)
    _check_agenda(m, visits)
    _check_limits(m, visits)
    _check_reservations(m, visits)
    for visit in visits:
        _check_visit(visit)
        for scope in visit.scopes.values():
            _check_scope(scope)


def _check_waits(m: Machine, visits: list[Visit]) -> None:
    expected: dict[Any, Visit] = {}
    for visit in visits:
        for key in (visit.wait, visit.limit):
            if key is not None:
                assert key not in expected, f"{key} twice"
                expected[key] = visit
    assert expected.keys() == m.waits.keys(), expected.keys() ^ m.waits.keys()
    assert all(m.waits[key] is visit for key, visit in expected.items())
    paths = Counter(visit.path for visit in visits)
    assert max(paths.values()) == 1, f"one instance twice: {paths.most_common(2)}"


_WAITING = frozenset(
    {Phase.PROBE, Phase.COND, Phase.RUN, Phase.BACKOFF, Phase.INTERVAL, Phase.ASK, Phase.HELD, Phase.DOUBT}
)
_BEFORE = {Phase.NEW: "begin", Phase.READY: "start", Phase.SETTLED: "leave"}


def _check_visit(visit: Visit) -> None:
    assert visit.phase is not Phase.DONE
    assert (visit.wait is not None) == (visit.phase in _WAITING), visit.phase
    if visit.phase in (Phase.BACKOFF, Phase.INTERVAL, Phase.HELD):
        assert visit.due is not None
    if visit.scopes:
        assert visit.phase is Phase.OPEN
    loop = visit.loop
    if loop is None or visit.phase is not Phase.OPEN or visit.is_root:
        return
    ended = loop.completed + loop.failed + loop.skipped + loop.cancelled
    if visit.node.kind is not Kind.GROUP:
        assert loop.started == ended + len(visit.scopes) + len(loop.again), f"{visit.path}: counted wrongly"
    body = visit.node.body
    if isinstance(body, ForEach | Parallel) and loop.total and visit.verdict is None and not visit.stopping:
        total = loop.started if loop.stopped else loop.total
        others = loop.skipped + loop.cancelled
        if ended:
            verdict = joins.decided(
                body.join, total=total, completed=loop.completed, failed=loop.failed, others=others
            )
            assert verdict is None, f"{visit.path} is decided and nobody noticed"


def _check_agenda(m: Machine, visits: list[Visit]) -> None:
    entries = Counter(
        (operation, id(visit)) for operation, visit in m.agenda if visit.phase is not Phase.DONE
    )
    for visit in visits:
        own = {operation: count for (operation, owner), count in entries.items() if owner == id(visit)}
        expected = _BEFORE.get(visit.phase)
        for operation in ("begin", "start", "leave"):
            assert own.get(operation, 0) == (operation is expected), f"{visit.path} {visit.phase.name}: {own}"
        if visit.phase is Phase.OPEN and not visit.scopes and visit.loop is not None:
            assert own, f"{visit.path} is open and nothing is inside"
        assert sum(own.values()) <= 1 or visit.phase is not Phase.OPEN, f"{visit.path}: {own}"
        if own and not m.hold.reasons:
            assert m.breathing is not None, "work is left undone"
        if own.get("check") or own.get("pass"):
            assert not visit.scopes


def _check_limits(m: Machine, visits: list[Visit]) -> None:
    for visit in visits:
        if visit in m.hold.aside:
            assert visit.limit is None
            assert m.hold.reasons
            continue
        limit: float | None = None
        spent = visit.verdict is not None or visit.stopping
        if visit is m.root and visit.call is not None:
            limit = visit.call.program.workflow.timeout if visit.call.stage is Stage.MAIN else None
            spent = visit.call.verdict is not None
        elif visit.phase in (Phase.OPEN, Phase.COND, Phase.INTERVAL) and not visit.is_root:
            limit = loops.limit_of(visit) if visit.call is None else visit.node.step.timeout
            if visit.call is not None:
                spent |= visit.call.verdict is not None or visit.call.stage is not Stage.MAIN
        elif visit.phase is Phase.ASK:
            limit = visit.node.step.timeout
        if limit is not None and not spent:
            assert visit.limit is not None, f"{visit.path or 'the run'} has lost its limit"
            assert visit.limit_due is not None


def _check_reservations(m: Machine, visits: list[Visit]) -> None:
    running = {
        visit.path for visit in visits if visit.phase is Phase.RUN and isinstance(visit.node.body, Agent)
    }
    spending = m.spending
    assert spending.reserved.keys() <= running, "money is set aside for nothing"
    budget = m.plan.workflow.budget
    if budget is not None and (budget.usd is not None or budget.tokens is not None):
        inside = {path for path in running if "_finally" not in path and "_error" not in path}
        assert inside <= spending.reserved.keys(), "money was not set aside"
    below: dict[str, list[Amount]] = {path: [] for path in spending.accounts}
    for visit in visits:
        if visit.path in spending.reserved:
            for purse in spending.around(visit):
                below[purse.path].append(spending.reserved[visit.path])
    for path, purse in spending.accounts.items():
        amounts = below[path]
        assert purse.under_way == len(amounts), f"{path or 'the run'}: counted wrongly"
        assert purse.reserved == Amount(sum(one.usd for one in amounts), sum(one.tokens for one in amounts))
        assert purse.alone is None or amounts == [spending.reserved[purse.alone]], "not alone"
    waiting = {visit.path for visit in visits if visit.phase is Phase.AWAITING_BUDGET}
    first = next(iter(spending.queue), None)
    assert waiting <= spending.queue.keys() <= waiting | {first}, "who waits for money stands in line"
    assert not spending.queue or m.hold.reasons or m.breathing is not None or spending.reserved, (
        "waits for ever"
    )
    assert spending.accounts.keys() <= {visit.path for visit in visits} or m.at_verdict is not None, (
        "left open"
    )


def check_launch(m: Machine, path: str) -> None:
    """Of an agent that was just launched: whatever pays for it can pay for all that runs."""
    visit = m.find(path)
    assert visit is not None
    if path not in m.spending.reserved:
        return
    for purse in m.spending.around(visit):
        for limit, spent, reserved in zip(purse.limits, purse.spent, purse.reserved, strict=True):
            assert limit is None or spent + reserved <= limit, f"{purse.path or 'the run'} cannot pay {path}"


def _check_scope(scope: Scope) -> None:
    assert scope.live, f"{scope.prefix or 'the run'} is open and nothing in it is live"
    graph = scope.graph
    if graph is None:
        assert len(scope.live) == 1, "two steps of one flow at once"
        return
    if scope.stopping or scope.verdict is not None:
        return
    nodes = scope.block.nodes
    open_states = (graphs.WAITING, graphs.LIVE)
    for node in nodes:
        needs = {scope.block.index[name] for name in node.step.depends_on}
        states = [graph.states[need] for need in needs]
        assert graph.unmet[node.index] == sum(state in open_states for state in states)
        assert graph.failed[node.index] == sum(state in (graphs.BAD, graphs.LEFT_OUT) for state in states)
        assert (graph.states[node.index] == graphs.LIVE) == (node.index in scope.live)
        waits = graph.states[node.index] == graphs.WAITING and graph.unmet[node.index] == 0
        assert waits == (node.index in graph.held_back), "ready, and neither begun nor held back"
    assert graph.open == sum(state in open_states for state in graph.states)
    bad = [node for node in nodes if graph.states[node.index] == graphs.BAD]
    assert graph.failures == len(bad)
    assert graph.stop_failures == sum(node.step.error_action == "stop" for node in bad)
