"""The state of a machine as plain data and back: for long runs, for other hosts, and for reopening.

The tree is written down; `waits` is asked of it again. A checkpoint is only good for the plan and the rules it was made
under, and says which those are.
"""

from typing import Any

import msgspec

from podium.errors import PodiumError
from podium.machine.accounts import Amount, BudgetAccount, Spending
from podium.machine.agenda import Agenda
from podium.machine.commands import Question, Record
from podium.machine.program import BlockProgram, Node, WorkflowProgram, run_node
from podium.machine.tree import (
    GraphState,
    Loop,
    Outcome,
    Phase,
    Result,
    Scope,
    Stage,
    Unfinished,
    Verdict,
    Visit,
    WorkflowState,
)
from podium.machine.values import items_of
from podium.plan.changes import StepChange
from podium.plan.plan import Budget


class CheckpointMismatch(PodiumError):
    """A checkpoint of another plan or of other rules: replay the log instead."""

    code = "CHECKPOINT_MISMATCH"


def dump(m: Agenda, plan_sha256: str, rules: int) -> dict[str, Any]:
    return {
        "rules": rules,
        "plan": plan_sha256,
        "seq": m.last_seq,
        "now": m.surroundings.now,
        "env": m.surroundings.env,
        "run": m.surroundings.run,
        "records": [[r.event_type, r.path, r.attempt, r.payload] for r in m.records],
        "visits": m.visits,
        "cycle": m.pause_cycle,
        "opening": m.opening,
        "terminal": m.terminal,
        "inconsistent": m.inconsistent,
        "early": m.ends_before_start,
        "cancels": m.cancels,
        "breath": [m.breath, m.breathing],
        "hold": [list(m.hold.reasons), m.hold.since, m.hold.total, m.hold.measured_since, m.hold.taken_over],
        "recalled": [m.taken_over_to, m.surroundings.recalled.recorded, m.surroundings.recalled.here],
        "spending": _spending(m.spending),
        "verdict": m.at_verdict,
        "changes": [[path, *_change(change)] for path, change in m.changes.items()],
        **dump_tree(m),
    }


def dump_tree(m: Agenda) -> dict[str, Any]:
    """The tree, and what is about to happen to it."""
    return {
        "tree": visit_data(m.root) if m.root is not None else None,
        "agenda": [[operation, visit.path] for operation, visit in m.agenda if visit.phase is not Phase.DONE],
        "aside": [visit.path for visit in m.hold.aside],
        "line": list(m.spending.queue),
    }


def restore(m: Agenda, saved: dict[str, Any], plan_sha256: str, rules: int) -> None:
    """Make a new machine what the other one was."""
    if saved["plan"] != plan_sha256 or saved["rules"] != rules:
        raise CheckpointMismatch(
            "the checkpoint is of another plan or of other rules; replay the log instead"
        )
    m.last_seq = saved["seq"]
    m.surroundings.now = saved["now"]
    m.surroundings.env = saved["env"]
    m.surroundings.run = saved["run"]
    m.records.extend(Record(*record) for record in saved["records"])
    m.visits = saved["visits"]
    m.pause_cycle = saved["cycle"]
    m.opening = saved["opening"]
    m.terminal = saved["terminal"]
    m.inconsistent = saved["inconsistent"]
    m.ends_before_start = saved["early"]
    m.cancels = saved["cancels"]
    m.breath, m.breathing = saved["breath"]
    reasons, m.hold.since, m.hold.total, m.hold.measured_since, m.hold.taken_over = saved["hold"]
    m.taken_over_to, m.surroundings.recalled.recorded, m.surroundings.recalled.here = saved["recalled"]
    m.hold.reasons = list(reasons)
    _read_spending(m.spending, saved["spending"])
    m.at_verdict = saved["verdict"]
    # Executions on Temporal that are older than changes of steps have none.
    m.changes = {path: _read_change(change) for path, *change in saved.get("changes", ())}
    restore_tree(m, saved)


# Its place in the plain data of a scope.
_ITEM = 2


# --- writing --------------------------------------------------------------------------------------


def visit_data(visit: Visit) -> list[Any]:
    return [
        visit.node.index if not visit.is_root else -1,
        visit.path,
        visit.attempt,
        visit.tries,
        int(visit.phase),
        _flags(visit),
        outcome_data(visit.outcome),
        _verdict(visit.verdict),
        _key(visit.wait),
        visit.due,
        [visit.limit, visit.limit_due, visit.limit_held],
        visit.counter,
        [[q.kind, q.name] for q in visit.questions],
        None if visit.answers is None else [[q.kind, q.name, answer] for q, answer in visit.answers.items()],
        None if visit.values is None else [[list(path), value] for path, value in visit.values.items()],
        visit.goto,
        _loop(visit),
        _call(visit.call),
        _unfinished(visit.unfinished),
        [_scope(scope) for scope in visit.scopes.values()],
    ]


def _flags(visit: Visit) -> list[Any]:
    """And, only if there is one, what was changed in the step."""
    flags = [visit.started, visit.handed, visit.stopping, visit.stop_code]
    return flags if visit.change is None else [*flags, _change(visit.change)]


def _change(change: StepChange) -> list[Any]:
    return [list(change.by), change.override, change.target]


def _read_change(saved: list[Any]) -> StepChange:
    by, override, target = saved
    return StepChange(tuple(by), override, target)


def _key(key: Any) -> Any:
    return list(key) if isinstance(key, tuple) else key


def _scope(scope: Scope) -> list[Any]:
    graph = scope.graph
    return [
        scope.index,
        scope.prefix,
        scope.item,
        _results(scope.results),
        list(scope.attempts.items()),
        list(scope.visits.items()),
        scope.gotos,
        [scope.cause, scope.cause_goto],
        _verdict(scope.verdict),
        [scope.stopping, scope.failed_unhandled, None if scope.kept is None else sorted(scope.kept)],
        None if scope.skips is None else sorted(scope.skips),
        None
        if graph is None
        else [
            list(graph.unmet),
            list(graph.failed),
            list(graph.states),
            graph.open,
            graph.failures,
            graph.stop_failures,
            list(graph.held_back),
            list(graph.messages.items()),
        ],
        None if scope.left is None else [visit_data(visit) for visit in scope.left.values()],
        [visit_data(visit) for visit in scope.live.values()],
    ]


def _results(results: dict[str, Result]) -> list[Any]:
    return [[name, _result(result)] for name, result in results.items()]


def _result(result: Result) -> list[Any]:
    return [
        result.status,
        result.exit_code,
        result.attempts,
        result.visits,
        result.timed_out,
        _fields(result.fields),
    ]


def _fields(fields: dict[str, Any] | None) -> list[Any] | None:
    if fields is None:
        return None
    written: list[Any] = []
    for name, value in fields.items():
        if name == "iterations":
            value = _iterations(value)
        elif name in ("last", "branches", "steps"):
            value = None if value is None else _results(value)
        written.append([name, value])
    return written


def _iterations(iterations: dict[int, dict[str, Any]]) -> list[Any]:
    return [[i, one["item"], one["status"], _results(one["steps"])] for i, one in iterations.items()]


def outcome_data(outcome: Outcome | None) -> list[Any] | None:
    if outcome is None:
        return None
    return [outcome.event, outcome.exit_code, outcome.error, _fields(outcome.fields), outcome.reason]


def _verdict(verdict: Verdict | None) -> list[Any] | None:
    return (
        None
        if verdict is None
        else [verdict.status, verdict.exit_code, verdict.reason, verdict.error, verdict.code]
    )


def _loop(visit: Visit) -> list[Any] | None:
    loop, node = visit.loop, visit.node
    if loop is None:
        return None
    items = None if node.items_again else loop.items
    return [
        loop.total, items, loop.index, loop.started, loop.completed, loop.failed, loop.skipped, loop.cancelled,
        loop.started_at, loop.stopped, loop.exit_reason, loop.pending, _iterations(loop.iterations),
        None if loop.last is None else _results(loop.last), _results(loop.branches), loop.last_index,
        [loop.again, loop.first_counted],
    ]  # fmt: skip


def _unfinished(kept: Unfinished | None) -> list[Any] | None:
    if kept is None:
        return None
    return [
        None if kept.phase is None else int(kept.phase),
        outcome_data(kept.outcome),
        None if kept.account is None else _purse(kept.account),
        None if kept.context is None else dict(kept.context),
        [_scope(scope) for scope in kept.scopes.values()],
        [[index, status, packed] for index, (status, packed) in kept.items.items()],
    ]


def pack_list(scope: Scope) -> str:
    """A list of a for_each that is kept. Its item is found in the loop again."""
    data = _scope(scope)
    data[_ITEM] = None
    return msgspec.json.encode(data).decode()


def unpack_list(m: Agenda, packed: str, owner: Visit) -> Scope:
    scope = _read_scope(m, msgspec.json.decode(packed), owner, {}, False)
    if owner.loop is not None:
        scope.item = owner.loop.items[scope.index]
    return scope


def _call(call: WorkflowState | None) -> list[Any] | None:
    if call is None:
        return None
    return [
        dict(call.inputs), dict(call.context), int(call.stage), _verdict(call.verdict), call.aimed_at_error,
        [call.no_more, call.main_completed], _results(call.main_results), spent_data(call.spent),
    ]  # fmt: skip


def _spending(spending: Spending) -> list[Any]:
    accounts = [_purse(account) for account in spending.accounts.values()]
    reserved = [[path, *amount] for path, amount in spending.reserved.items()]
    highest = [[provider, *amount] for provider, amount in spending.highest.items()]
    written = [[path, _budget(budget)] for path, budget in spending.written.items()]
    return [accounts, reserved, highest, spending.moved, written]


def _purse(account: BudgetAccount) -> list[Any]:
    aside = [list(account.reserved), account.under_way, account.alone]
    return [account.path, _budget(account.budget), list(account.spent), aside, account.warned]


def _budget(budget: Budget | None) -> list[Any] | None:
    return None if budget is None else list(msgspec.structs.astuple(budget))


def spent_data(spent: dict[int, dict[int, int]]) -> list[Any]:
    return [[index, list(tries.items())] for index, tries in spent.items()]


# --- reading --------------------------------------------------------------------------------------


def restore_tree(m: Agenda, saved: dict[str, Any], *, keep_waits: bool = True) -> None:
    if saved["tree"] is None:
        m.root = None
        return
    found: dict[str, Visit] = {}
    m.root = _read_visit(m, saved["tree"], None, run_node(m.program), found, keep_waits)
    for name, path in saved["agenda"]:
        m.agenda.append((name, found[path]))
    m.hold.aside.extend(found[path] for path in saved["aside"])
    m.spending.queue.update((path, found[path]) for path in saved["line"])


def _read_visit(
    m: Agenda,
    saved: list[Any],
    scope: Scope | None,
    node: Node,
    found: dict[str, Visit],
    keep_waits: bool,
) -> Visit:
    (
        _, path, attempt, tries, phase, flags, outcome, verdict, wait, due, limit, counter, questions, answers, values,
        goto, loop, call, unfinished, scopes,
    ) = saved  # fmt: skip
    visit = Visit(scope, node, path, attempt)
    found[path] = visit
    visit.tries = tries
    visit.phase = Phase(phase)
    visit.started, visit.handed, visit.stopping, visit.stop_code, *change = flags
    visit.change = _read_change(change[0]) if change else None
    visit.outcome = read_outcome(outcome)
    visit.verdict = _read_verdict(verdict)
    visit.wait = tuple(wait) if isinstance(wait, list) else wait
    visit.due = due
    visit.limit, visit.limit_due, visit.limit_held = limit
    visit.counter = counter
    visit.questions = tuple(Question(kind, name) for kind, name in questions)
    visit.answers = (
        None if answers is None else {Question(kind, name): answer for kind, name, answer in answers}
    )
    visit.values = None if values is None else {tuple(key): value for key, value in values}
    visit.goto = goto
    visit.loop = _read_loop(loop)
    if visit.loop is not None and node.items_again and visit.loop.total:
        visit.loop.items = items_of(m.view(visit.scope), node)
    if call is not None and node.program is not None:
        visit.call = _read_call(call, node.program)
    if keep_waits:
        if visit.wait is not None:
            m.waits[visit.wait] = visit
        if visit.limit is not None:
            m.waits[visit.limit] = visit
    for one in scopes:
        visit.scopes[one[0]] = _read_scope(m, one, visit, found, keep_waits)
    visit.unfinished = _read_unfinished(m, unfinished, visit)
    return visit


def _read_unfinished(m: Agenda, saved: list[Any] | None, visit: Visit) -> Unfinished | None:
    """Nothing in it is on the agenda or waited for."""
    if saved is None:
        return None
    phase, outcome, account, context, scopes, items = saved
    kept = Unfinished()
    kept.phase = None if phase is None else Phase(phase)
    kept.outcome = read_outcome(outcome)
    kept.account = None if account is None else _read_account(account)
    kept.context = context
    kept.scopes = {one[0]: _read_scope(m, one, visit, {}, False) for one in scopes}
    kept.items = {index: (status, packed) for index, status, packed in items}
    return kept


def _read_scope(
    m: Agenda, saved: list[Any], owner: Visit, found: dict[str, Visit], keep_waits: bool
) -> Scope:
    index, prefix, item, results, tries, visits, gotos, cause, verdict, flags, skips, graph, left, live = (
        saved
    )
    block = _block_of(owner, index)
    scope = Scope(owner, block, prefix, index)
    scope.item = item
    scope.results = _read_results(results)
    scope.attempts = dict(tries)
    scope.visits = dict(visits)
    scope.gotos = gotos
    scope.cause, scope.cause_goto = cause
    scope.verdict = _read_verdict(verdict)
    scope.stopping, scope.failed_unhandled, kept = flags
    scope.kept = None if kept is None else set(kept)
    scope.skips = None if skips is None else set(skips)
    if graph is not None:
        scope.graph = GraphState(block)
        state = scope.graph
        state.unmet, state.failed = list(graph[0]), list(graph[1])
        state.states = bytearray(graph[2])
        state.open, state.failures, state.stop_failures = graph[3:6]
        state.held_back = list(graph[6])
        # Histories of executions on a server have machines without messages.
        state.messages = dict(graph[7]) if len(graph) > 7 else {}
    for one in live:
        node = block.nodes[one[0]]
        scope.live[node.index] = _read_visit(m, one, scope, node, found, keep_waits)
    if left is not None:
        nodes = [block.nodes[one[0]] for one in left]
        scope.left = {
            node.index: _read_visit(m, one, scope, node, {}, False)
            for node, one in zip(nodes, left, strict=True)
        }
    return scope


def _block_of(owner: Visit, index: int) -> BlockProgram:
    if owner.call is not None:
        program = owner.call.program
        block = (program.block, program.error, program.cleanup)[index]
    else:
        block = owner.node.branches[index] if owner.node.branches else owner.node.block
    if block is None:
        raise CheckpointMismatch(f"{owner.path!r} has no list {index}; replay the log instead")
    return block


def _read_results(saved: list[Any]) -> dict[str, Result]:
    return {name: _read_result(result) for name, result in saved}


def _read_result(saved: list[Any]) -> Result:
    status, exit_code, tries, visits, timed_out, fields = saved
    result = Result(status, exit_code, tries, visits, timed_out=timed_out)
    result.fields = _read_fields(fields)
    return result


def _read_fields(saved: list[Any] | None) -> dict[str, Any] | None:
    if saved is None:
        return None
    fields: dict[str, Any] = {}
    for name, value in saved:
        if name == "iterations":
            fields[name] = _read_iterations(value)
        elif name in ("last", "branches", "steps"):
            fields[name] = None if value is None else _read_results(value)
        else:
            fields[name] = value
    return fields


def _read_iterations(saved: list[Any]) -> dict[int, dict[str, Any]]:
    return {
        index: {"index": index, "item": item, "status": status, "steps": _read_results(steps)}
        for index, item, status, steps in saved
    }


def read_outcome(saved: list[Any] | None) -> Outcome | None:
    if saved is None:
        return None
    event, exit_code, error, fields, reason = saved
    return Outcome(event, exit_code, error=error, fields=_read_fields(fields), reason=reason)


def _read_verdict(saved: list[Any] | None) -> Verdict | None:
    return None if saved is None else Verdict(*saved)


def _read_loop(saved: list[Any] | None) -> Loop | None:
    if saved is None:
        return None
    loop = Loop(saved[0], saved[8])
    loop.items = saved[1] if saved[1] is not None else []
    loop.index, loop.started, loop.completed, loop.failed, loop.skipped, loop.cancelled = saved[2:8]
    loop.stopped, loop.exit_reason, loop.pending = saved[9:12]
    loop.iterations = _read_iterations(saved[12])
    loop.last = None if saved[13] is None else _read_results(saved[13])
    loop.branches = _read_results(saved[14])
    loop.last_index = saved[15]
    loop.again, loop.first_counted = list(saved[16][0]), saved[16][1]
    return loop


def _read_call(saved: list[Any], program: WorkflowProgram) -> WorkflowState:
    inputs, context, stage, verdict, aimed, flags, results, spent = saved
    call = WorkflowState(program, inputs)
    call.context = dict(context)
    call.spent = read_spent(spent)
    call.stage = Stage(stage)
    call.verdict = _read_verdict(verdict)
    call.aimed_at_error = aimed
    call.no_more, call.main_completed = flags
    call.main_results = _read_results(results)
    return call


def _read_spending(spending: Spending, saved: list[Any]) -> None:
    accounts, reserved, highest, spending.moved, written = saved
    spending.written = {path: _read_budget(budget) for path, budget in written}
    for account in map(_read_account, accounts):
        spending.accounts[account.path] = account
    spending.reserved = {path: Amount(usd, tokens) for path, usd, tokens in reserved}
    spending.highest = {provider: Amount(usd, tokens) for provider, usd, tokens in highest}


def _read_account(saved: list[Any]) -> BudgetAccount:
    path, budget, spent, (aside, under_way, alone), warned = saved
    account = BudgetAccount(path, _read_budget(budget))
    account.spent, account.reserved = Amount(*spent), Amount(*aside)
    account.under_way, account.alone, account.warned = under_way, alone, warned
    return account


def _read_budget(saved: list[Any] | None) -> Budget | None:
    return None if saved is None else Budget(*saved)


def read_spent(saved: list[Any]) -> dict[int, dict[int, int]]:
    return {index: dict(tries) for index, tries in saved}
