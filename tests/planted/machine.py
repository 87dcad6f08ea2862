"""Faults in the machine that belong to no single rule: the tests of `tests/unit/machine` have to notice each."""

from typing import Final

from tests.planted.edits import Edit, after, before, drop, swap
from tests.planted.faults import Fault


def _fault(what: str, *edits: Edit) -> Fault:
    return Fault("", what, edits, ("tests/unit/machine",))


FAULTS: Final = [
    _fault(
        "what failed and had been stopped before keeps its failure in a reopened run",
        swap("machine/reopening.py:_Kept.outcome_of", "not routing.has_failed(outcome, visit.node)", "True"),
    ),
    _fault(
        "a reopened loop forgets the failed items whose turn has not come",
        swap(
            "machine/checkpoint.py:_place_inside",
            "loop = visit.loop",
            """
            loop = visit.loop
            if loop is not None: loop.again = []
            """,
        ),
    ),
    _fault(
        "a reopened call keeps what its cleanup did to the context",
        drop("machine/continuing.py:_continue_call", "call.context, kept.context = kept.context, None"),
    ),
    _fault(
        "a finally that is continued repeats blocks that failed",
        swap("machine/routing.py:resume_list", "index in scope.left", "False"),
    ),
    _fault(
        "what a failed loop has spent of its budget is forgotten",
        drop("machine/continuing.py:restore_budget", "m.spending.accounts[visit.path] = kept.account"),
    ),
    _fault(
        "a reopened loop that had reached its maximum gets no more passes",
        drop("machine/continuing.py:_continue_loop", "loop.first_counted = loop.index"),
    ),
    _fault(
        "items that were continued are counted twice",
        drop("machine/continuing.py:_unfinished_lists", "_count(...)"),
    ),
    _fault(
        "items whose turn did not come are not counted",
        drop("machine/continuing.py:leave_to_next_opening", "_count(...)"),
    ),
    _fault(
        "what was being stopped when the run was cancelled is lost",
        drop("machine/reopening.py:_set_aside", "unfinished.keep_stopped(...)"),
    ),
    _fault(
        "a reopened run repeats a completed step that ended it",
        swap(
            "machine/attempts.py:take_up", "routing.has_failed(recorded_outcome(scope, node), node)", "True"
        ),
    ),
    _fault(
        "a completed step of finally that ended it is passed over by a reopened run",
        drop("machine/reopening.py:resume_cleanup", "if (...) and (not ...): ..."),
    ),
    _fault(
        "a reopened run forgets where a loop was left to",
        drop("machine/attempts.py:leave", "scope.cause_goto = visit.goto"),
    ),
    _fault(
        "what is parked moves while held",
        swap(
            "machine/machine.py:Machine._work",
            "not self.hold.reasons and (self.agenda or (self.spending.moved and budgets.call_next(self)))",
            "self.agenda or (not self.hold.reasons and budgets.call_next(self))",
        ),
    ),
    _fault("a limit runs on while held", swap("machine/holds.py:is_due", "m.hold.reasons", "False")),
    _fault(
        "held time is not given back",
        swap("machine/holds.py:is_due", "m.hold.total > ...", "False"),
    ),
    _fault("limits set aside are lost at resume", drop("machine/holds.py:release", "_give_back(m, visit)")),
    _fault(
        "what is set aside does not count",
        swap(
            "machine/spending.py:Spending.reserve",
            "Amount(account.spent.usd + account.reserved.usd, account.spent.tokens + account.reserved.tokens)",
            "Amount(account.spent.usd, account.spent.tokens)",
        ),
    ),
    _fault(
        "what is set aside is never given back",
        drop("machine/spending.py:Spending.release", "account.give_back(amount, visit.path)"),
    ),
    _fault(
        "the budget applies in finally",
        swap(
            "machine/budgets.py:reserve",
            "not any((account.is_limited() for account in accounts)) or _is_outside(visit)",
            "not any((account.is_limited() for account in accounts))",
        ),
    ),
    _fault(
        "the soft limit is told again and again",
        drop("machine/accounts.py:BudgetAccount.charge", "self.warned = True"),
    ),
    _fault(
        "a step's own budget is not what is set aside",
        swap("machine/spending.py:Spending._needed", "own is not None and own_usd is not None", "False"),
    ),
    _fault(
        "the reserve is not set aside",
        swap("machine/spending.py:Spending._needed", "reserve is not None", "False"),
    ),
    _fault(
        "the outermost reserve counts",
        swap(
            "machine/spending.py:Spending._needed",
            ("(account.budget.reserve for account in accounts if account.budget is not None)", "accounts"),
            "reversed(accounts)",
        ),
    ),
    _fault(
        "an unknown cost is none",
        swap(
            "machine/spending.py:Spending._needed",
            "known.usd if known is not None else None",
            "known.usd if known is not None else 0",
        ),
    ),
    _fault(
        "the first of a provider does not wait for others",
        swap(
            "machine/spending.py:Spending.reserve",
            "account.alone is not None or (alone and account.under_way) or _cannot_reserve(account, need, committed)",
            "account.alone is not None or _cannot_reserve(account, need, committed)",
        ),
    ),
    _fault(
        "others begin beside the first of a provider",
        swap(
            "machine/spending.py:Spending.reserve",
            "account.alone is not None or (alone and account.under_way) or _cannot_reserve(account, need, committed)",
            "alone and account.under_way or _cannot_reserve(account, need, committed)",
        ),
    ),
    _fault(
        "the newest cost counts, not the highest",
        swap(
            "machine/budgets.py:charge",
            "Amount(max(known.usd, cost.usd), max(known.tokens, cost.tokens))",
            "cost",
        ),
    ),
    _fault(
        "the newcomer passes the line",
        swap("machine/budgets.py:reserve", "queue and next(iter(queue)) != visit.path", "False"),
    ),
    _fault(
        "who leaves the line lets nobody try",
        swap(
            "machine/spending.py:Spending.release",
            "if self.queue and self.queue.pop(visit.path, None) is not None: ...",
            "self.queue.pop(visit.path, None)",
        ),
    ),
    _fault(
        "an end lets nobody in line try",
        drop(
            "machine/spending.py:Spending.release",
            (
                "if amount is not None: ...",
                "self.moved = True",
            ),
        ),
    ),
    _fault(
        "only one in line is let through",
        swap(
            "machine/budgets.py:reserve",
            "if queue.pop(visit.path, None) is not None: ...",
            "queue.pop(visit.path, None)",
        ),
    ),
    _fault(
        "waiting for others holds the run",
        after("machine/budgets.py:reserve", "_enqueue(m, visit)", "holds.hold(m, 'budget', {})", nth=2),
    ),
    _fault(
        "who can never be paid waits quietly",
        drop("machine/budgets.py:reserve", "holds.hold(m, 'budget', _shortage(m, visit, body))"),
    ),
    _fault(
        "a resumed run does not ask who could not be paid",
        drop("machine/holds.py:release", "m.spending.moved = True"),
    ),
    _fault(
        "only the run is charged",
        swap("machine/budgets.py:charge", "spending.around(visit)", "[spending.accounts['']]"),
    ),
    _fault(
        "a budget of a step is never closed",
        drop("machine/attempts.py:leave", "m.spending.close(visit)"),
    ),
    _fault(
        "a reopened run counts a step's cost anew",
        swap("machine/unfinished.py:keep_stopped", "m.at_verdict is None", "True"),
    ),
    _fault(
        "a failed attempt costs nothing",
        swap(
            "machine/attempts.py:failed",
            "budgets.charge(m, visit, payload)",
            "m.spending.release(visit)",
        ),
    ),
    _fault(
        "the line is not saved",
        drop(
            "machine/checkpoint.py:decode",
            "m.spending.queue.update(((path, found[path]) for path in saved.queue))",
        ),
    ),
    _fault(
        "who runs alone is not saved",
        swap(
            "machine/checkpoint.py:decode",
            "m.root = saved.tree",
            """
            m.root = saved.tree
            for account in m.spending.accounts.values(): account.alone = None
            """,
        ),
    ),
    _fault("a pause has no number", drop("machine/holds.py:hold", "m.pause_cycle += 1")),
    _fault(
        "a stopped call does not clean up",
        swap("machine/stopping.py:_stop_composite", "code in (...)", "True"),
    ),
    _fault("a dropped try is not told", swap("machine/stopping.py:stop_visit", "visit.tries > 1", "False")),
    _fault(
        "a task that was never handed out is cancelled",
        swap("machine/stopping.py:stop_visit", "visit.handed", "True"),
    ),
    _fault(
        "a retry in a graph forgets a failed parent",
        swap("machine/graphs.py:_take_back", "graph.failed[dependent] -= 1", "graph.failed[dependent] = 0"),
    ),
    _fault(
        "held-back steps stay held back",
        swap("machine/graphs.py:retry", "not graph.stop_failures", "False"),
    ),
    _fault(
        "a stopping failure lets others begin",
        swap("machine/graphs.py:_ready", "graph.stop_failures", "False"),
    ),
    _fault(
        "dependants are left out too early",
        swap(
            "machine/graphs.py:_settled",
            "graph.unmet[dependent] == 0",
            "graph.unmet[dependent] == 0 or (how == BAD and graph.states[dependent] == WAITING)",
        ),
    ),
    _fault(
        "a retry is taken in a graph that is being stopped",
        swap(
            "machine/graphs.py:retry",
            "graph is None or graph.states[node.index] != BAD or scope.verdict is not None or scope.stopping",
            "graph is None or graph.states[node.index] != BAD",
        ),
    ),
    _fault(
        "each visit is attempt 1",
        swap("machine/attempts.py:enter", "scope.attempts.get(node.index, 0) + 1", "1"),
    ),
    _fault(
        "a stopped task closes its list while held",
        swap(
            "machine/attempts.py:stopped",
            """
            visit.phase = SETTLED
            visit.wait = None
            m.later('leave', visit)
            """,
            "drop(m, visit)",
        ),
    ),
    _fault(
        "a doubtful task is retried under the same attempt",
        drop("machine/attempts.py:interrupted", "next_attempt(visit)"),
    ),
    _fault(
        "a rejection's target outlives its attempt",
        drop("machine/attempts.py:next_attempt", "visit.goto = None"),
    ),
    _fault(
        "a failure that may not be retried is retried",
        drop(
            "machine/attempts.py:_is_tried_again",
            "if error.get('retryable') is False: ...",
        ),
    ),
    _fault(
        "the operator has no window",
        swap("machine/attempts.py:after_failure", "retry.operator", "False", nth=1),
    ),
    _fault("backoff grows too fast", swap("machine/attempts.py:back_off", "tries - 1", "tries")),
    _fault(
        "further tries are not marked",
        swap(
            "machine/tree.py:prefix_of",
            "visit.path if visit.attempt == 1 else f'{visit.path}#{visit.attempt}'",
            "visit.path",
        ),
    ),
    _fault(
        "half is a majority",
        swap("machine/joins.py:decided", "2 * completed > total", "2 * completed >= total"),
    ),
    _fault("all fails fast", swap("machine/joins.py:decided", "failed and join.fail_fast", "failed")),
    _fault(
        "what is dead counts for the breather",
        before("machine/machine.py:Machine._work", "continue", "operations += 1"),
    ),
    _fault(
        "any event ends the breather",
        drop(
            "machine/machine.py:Machine._work",
            "if self.breathing is not None: ...",
        ),
    ),
    _fault(
        "time runs back",
        swap("machine/machine.py:Machine.advance", "event.emitted_at > self.surroundings.now", "True"),
    ),
    _fault(
        "a fired timer does not move time",
        swap("machine/machine.py:_timer_fired", "due is not None and due > m.now", "False"),
    ),
    _fault(
        "keys of timers are used again",
        swap("machine/agenda.py:Agenda.timer_key", "visit.counter += 1", "visit.counter = 1"),
    ),
    _fault(
        "the end overtakes other records",
        swap("machine/agenda.py:Agenda.record", "self.records.append", "self.records.appendleft"),
    ),
    _fault(
        "a completed run is reopened",
        swap(
            "machine/machine.py:_reopened",
            "m.terminal and (m.at_verdict is not None or m.ends_before_start)",
            "m.terminal",
        ),
    ),
    _fault(
        "a signal finds a step by its last name",
        swap(
            "machine/agenda.py:Agenda.find_scope",
            ("scope.block.index.get(rest)", "rest"),
            "path.split('/')[-1]",
        ),
    ),
    _fault(
        "a folded event is folded again",
        drop(
            "machine/machine.py:Machine.advance",
            "if event.run_seq <= self.last_seq: ...",
        ),
    ),
    _fault(
        "a finished run moves",
        swap(
            "machine/machine.py:Machine.advance",
            "handler is None or (self.terminal and event.event_type != EventType.RUN_REOPENED)",
            "handler is None",
        ),
    ),
    _fault(
        "a restored task was never handed out",
        swap(
            "machine/checkpoint.py:_place_inside",
            "node = visit.node",
            """
            node = visit.node
            visit.handed = False
            """,
        ),
    ),
    _fault(
        "limits set aside are not saved",
        drop(
            "machine/checkpoint.py:decode",
            "m.hold.aside.extend((found[path] for path in saved.aside))",
        ),
    ),
    _fault(
        "gotos are not saved",
        swap(
            "machine/checkpoint.py:_place_scope",
            "scope.owner = owner",
            """
            scope.owner = owner
            scope.gotos = 0
            """,
        ),
    ),
    _fault(
        "a reopened run repeats what had ended",
        swap(
            "machine/reopening.py:_resume_visit",
            "m.later('leave', visit)",
            """
            attempts.next_attempt(visit)
            visit.tries = 1
            visit.limit = visit.limit_due = None
            m.rules.try_again(m, visit)
            """,
        ),
    ),
    _fault(
        "a reopened run counts its timers from 1",
        drop("machine/reopening.py:_take_up", "root.attempt = m.opening"),
    ),
    _fault(
        "a break lets further items begin",
        drop("machine/loops.py:leave_iteration", "loop.stopped = True"),
    ),
    _fault(
        "a loop that is stopped goes on",
        swap(
            "machine/loops.py:_continues",
            "visit.phase is OPEN and (not visit.stopping) and (visit.verdict is None)",
            "True",
        ),
    ),
    _fault(
        "the first pass waits for the interval",
        swap("machine/loops.py:check", "loop.index and body.check_interval", "body.check_interval"),
    ),
    _fault(
        "the last item is whoever ended last",
        swap(
            "machine/loops.py:_item_closed",
            "keeps(node, 'last') and scope.index >= loop.last_index",
            "keeps(node, 'last')",
        ),
    ),
    _fault(
        "a pass with a failure is a success",
        swap(
            "machine/loops.py:_pass_closed",
            "'failed' if scope.failed_unhandled and status_of(scope) == 'completed' else status_of(scope)",
            "status_of(scope)",
        ),
    ),
    _fault("rest: wait is not waited for", swap("machine/loops.py:_decide", "join.rest == 'cancel'", "True")),
    _fault(
        "a cancel during finally hides a failure",
        swap(
            "machine/calls.py:cancel",
            "call.verdict is not None and call.verdict.status == 'completed'",
            "call.verdict is not None",
        ),
    ),
    _fault(
        "the run's limit reaches into finally",
        drop("machine/calls.py:_after_main", "holds.disarm(m, visit)"),
    ),
    _fault(
        "a failing finally changes every code",
        swap(
            "machine/calls.py:_cleanup_failed",
            "call.verdict is not None and call.verdict.status == 'completed'",
            "call.verdict is not None",
        ),
    ),
    _fault(
        "attempts of finally are used again after reopening",
        drop("machine/calls.py:scope_closed", "call.spent[scope.index] = scope.attempts"),
    ),
    _fault(
        "an allowed failure skips its item",
        swap("machine/routing.py:route", "None if passed else outcome", "outcome"),
    ),
    _fault(
        "gotos are counted too late",
        swap(
            "machine/routing.py:visit_node",
            "workflow_of(scope).program.workflow.max_transitions",
            "1 + workflow_of(scope).program.workflow.max_transitions",
        ),
    ),
    _fault(
        "a signal is answered behind the end",
        drop(
            "machine/signals.py:accepted",
            "if calls.is_over(m): ...",
        ),
    ),
    _fault("a skip is not noted", drop("machine/signals.py:_skip_later", "scope.skips = ...")),
    _fault(
        "a running step is skipped",
        swap("machine/signals.py:_skip_step", "Phase.BACKOFF", "Phase.BACKOFF | Phase.RUN"),
    ),
    _fault(
        "a question is asked though it does not matter",
        swap("machine/conditions.py:_all.all_of", "answer is False", "answer is False and (not unknown)"),
    ),
    _fault(
        "whole results are no plain data",
        swap("machine/values.py:_step_in", "_as_values(results)", "results"),
    ),
    _fault(
        "the inner loop hides its parent",
        swap(
            "machine/values.py:ScopeView._loop",
            "_loop_around(scope.owner.scope)",
            "_loop_around(self._scope)",
        ),
    ),
    _fault(
        "a budget written into the file does not hold for what is open",
        swap("machine/spending.py:Spending.write", "plan_path(account.path) == path", "False"),
    ),
    _fault(
        "a budget written into the file does not hold for later visits",
        drop("machine/spending.py:Spending.open", "budget = ..."),
    ),
    _fault(
        "a checkpoint forgets the budgets written into the file",
        swap(
            "machine/checkpoint.py:decode",
            "m.root = saved.tree",
            """
            m.root = saved.tree
            m.spending.written = {}
            """,
        ),
    ),
    _fault(
        "a step that completed after the cancel is done again",
        drop("machine/attempts.py:completed", "m.rules.ended_late(m, visit, outcome)"),
    ),
    _fault(
        "a stopped step is run again blindly",
        swap("machine/reopening.py:_resume_visit", "not visit.node.step.idempotent", "False"),
    ),
    _fault(
        "a second cancel forgets the finally of calls",
        swap("machine/reopening.py:keep_before_force", "checkpoint.replace(m, old, visit)", "old"),
    ),
    _fault(
        "the limit of a finally that is being stopped replaces the tree that was kept",
        swap("machine/reopening.py:keep_cleanup", "m.at_verdict is None", "True"),
    ),
    _fault(
        "a finally that failed is repeated as a whole",
        drop(
            "machine/reopening.py:resume_cleanup",
            "cleanup.kept = sorted(done - {node.index for node in failed})",
        ),
    ),
]
