"""Violations of docs/conformance/agent-workflows.md: where steps lead, loops, joins, retries, graphs, `finally`."""

from typing import Final

from tests.planted.edits import before, body, drop, start, swap
from tests.planted.faults import Fault, fault

FAULTS: Final[list[Fault]] = [
    fault(
        "D01",
        "without `strict_flow` a version 2.0 workflow is literal",
        swap("language/workflow.py:_discipline", "'strict' if strict else 'implied'", "'strict'"),
    ),
    fault(
        "D01",
        "`strict_flow: false` is taken for the default",
        swap(
            "language/workflow.py:_discipline",
            "version == '1.0' or strict is False",
            "version == '1.0'",
        ),
    ),
    fault(
        "D01",
        "the end of a compatible list fails the run if a step failed",
        swap(
            "machine/routing.py:resume_list",
            "end_scope(m, scope, Verdict('completed'))",
            "end_scope(m, scope, Verdict('failed', FAILED) if scope.failed_unhandled else Verdict('completed'))",
        ),
    ),
    fault(
        "D02",
        "an `on` that does not name the event continues with the next step",
        swap("machine/flow.py:way_on", "if on is not None and discipline != 'graph': return unnamed", "pass"),
    ),
    fault(
        "D02",
        "an unnamed event in an iteration ends the run",
        swap(
            "machine/routing.py:route",
            "end_scope(m, scope, Verdict('failed', NO_TRANSITION, 'no_transition', reason))",
            "m.rules.end_workflow(m, scope, Verdict('failed', NO_TRANSITION, 'no_transition', reason))",
        ),
    ),
    fault(
        "D03",
        "names may contain a slash",
        swap(
            "language/declaring.py",
            '''lazy_pattern(r"""[.\\[\\]{}"|/#]|:-""")''',
            '''lazy_pattern(r"""[.\\[\\]{}"|#]|:-""")''',
        ),
    ),
    fault(
        "D03",
        "a branch may have the name of a step around its block",
        swap(
            "language/declaring.py:declare", "scope.kind == 'branches' and scope.outer is not None", "False"
        ),
    ),
    fault(
        "D04",
        "a gate whose condition is false is skipped",
        swap("machine/attempts.py:begin", "node.kind is GATE", "False"),
    ),
    fault(
        "D04",
        "`defaults.provider` is ignored",
        swap("language/tasks.py:_provider", "context.default_provider is not None", "False"),
    ),
    fault(
        "D05",
        "a failure in a pass ends the pass",
        swap(
            "machine/flow.py",
            "(Way.NEXT, Way.NEXT, Way.NO_TRANSITION)",
            "(Way.NEXT, Way.FAILED, Way.NO_TRANSITION)",
        ),
    ),
    fault(
        "D05",
        "a failure that is allowed is routed as a failure",
        swap(
            "machine/routing.py:route",
            "'success' if passed else outcome.event",
            "outcome.event",
        ),
    ),
    fault(
        "D06",
        "of two joins the one in `for_each` is silently dropped",
        swap("language/blocks.py:_join_of", "beside is not None and inside is not None", "False"),
    ),
    fault(
        "D06",
        "a join in `for_each` is ignored",
        swap("language/blocks.py:_join_of", "beside if beside is not None else inside", "beside"),
    ),
    fault(
        "D07",
        "`any` is decided by the first branch to end, successful or not",
        swap(
            "machine/joins.py:decided",
            "if completed: return 'success'",
            "if completed or failed: return 'success'",
        ),
    ),
    fault(
        "D07",
        "`rest: wait` cancels the rest",
        swap("machine/loops.py:_decide", "join.rest == 'cancel'", "True"),
    ),
    fault(
        "D07",
        "the timeout of a join is ignored",
        drop("language/blocks.py:_timeout", "written.append(scalar_at(join, 'timeout'))"),
    ),
    fault(
        "D08",
        "`failure` is taken before `timeout`",
        swap(
            "machine/flow.py:_handler",
            "on.timeout if on.timeout is not None else on.failure",
            "on.failure if on.failure is not None else on.timeout",
        ),
    ),
    fault(
        "D09",
        "the run's timeout is not armed",
        swap(
            "machine/calls.py:open_run",
            "_begin(m, root, m.program.workflow.timeout)",
            "_begin(m, root, None)",
        ),
    ),
    fault(
        "D09",
        "a run that timed out ends with 1",
        swap("machine/calls.py", "TIMED_OUT: Final = 3", "TIMED_OUT: Final = 1"),
    ),
    fault(
        "D10",
        "`loop.parent` may be named in a loop that is not in another",
        swap(
            "language/references.py:_Resolving._loop",
            "scope = scope.outer.innermost_loop() if scope.outer is not None else None",
            "scope = (scope.outer.innermost_loop() or scope) if scope.outer is not None else None",
        ),
    ),
    fault(
        "D11",
        "`_loop_break` leaves the outermost loop",
        swap(
            "machine/loops.py:leave_iteration",
            "loop = inner.owner.progress",
            """
            while not inner.owner.scope.owner.is_root:
                inner = inner.owner.scope
            loop = inner.owner.progress
            """,
        ),
    ),
    fault(
        "D11",
        "`_loop_break` may be written outside of a loop",
        swap(
            "language/targets.py:_goto",
            "isinstance(reserved, Break | Continue) and names.scope.innermost_loop() is None",
            "False",
        ),
    ),
    fault(
        "D12",
        "an item left by `_loop_continue` from a failure counts as completed",
        swap(
            "machine/loops.py:leave_iteration",
            "'skipped' if from_failure else 'completed'",
            "'completed'",
        ),
    ),
    fault(
        "D12",
        "`success_rate` is a share of all items, not of those started",
        swap(
            "machine/loops.py:_facts",
            "loop.completed / loop.started if loop.started else 1",
            "loop.completed / loop.total if loop.total else 1",
        ),
    ),
    fault(
        "D12",
        "a loop over nothing has a success rate of 0",
        swap(
            "machine/loops.py:_facts",
            "loop.completed / loop.started if loop.started else 1",
            "loop.completed / loop.started if loop.started else 0",
        ),
    ),
    fault(
        "D13",
        "the short form of `iterations[i]` is not completed",
        swap(
            "language/references.py:_Resolving._iteration",
            "self._path = (*self._path[:place], 'steps', *self._path[place:])",
            "place -= 1",
        ),
    ),
    fault(
        "D14",
        "without `max_workers` all items run at the same time",
        swap(
            "machine/program.py:_workers",
            "body.max_workers if body.max_workers is not None else DEFAULT_WORKERS",
            "body.max_workers if body.max_workers is not None else 1000000",
        ),
    ),
    fault(
        "D14",
        "a break in a parallel loop starts further items",
        swap(
            "machine/loops.py:fill",
            "room > 0 and not loop.stopped and loop.index < loop.total",
            "room > 0 and loop.index < loop.total",
        ),
    ),
    fault(
        "D14",
        "after a break the join counts over all items",
        swap("machine/loops.py:_decide", "loop.started if loop.stopped else loop.total", "loop.total"),
        swap("machine/loops.py:_counted", "loop.started if loop.stopped else loop.total", "loop.total"),
    ),
    fault(
        "D15",
        "the condition is asked with the results of the first pass",
        swap(
            "machine/loops.py:_pass_closed",
            "loop.last = scope.results",
            "loop.last = loop.last or scope.results",
        ),
    ),
    fault(
        "D15",
        "a loop's body can be named outside of it",
        swap(
            "language/scopes.py:find_step",
            "NotVisible(hidden, 'inside') if hidden is not None else None",
            "hidden",
        ),
    ),
    fault(
        "D16",
        "a loop that reaches `max_iterations` succeeds",
        swap(
            "machine/loops.py:check",
            "Verdict('timeout', attempts.TIMED_OUT, 'max_iterations', ...)",
            "Verdict('completed')",
        ),
    ),
    fault(
        "D16",
        "the first pass waits for the interval",
        swap("machine/loops.py:check", "loop.index and body.check_interval", "body.check_interval"),
    ),
    fault(
        "D16",
        "`max_duration` is looked at only between passes",
        drop("machine/loops.py:timed_out", "m.rules.stop_scopes(m, visit, 'CANCELLED')"),
    ),
    fault(
        "D18",
        "a skipped step without a handler has no transition in strict flow",
        swap("machine/flow.py:way_on", "if event == 'skipped': return Way.NEXT", "pass"),
    ),
    fault(
        "D18",
        "a skipped step does not take `on.success`",
        swap(
            "machine/flow.py:_handler",
            "on.skipped if on.skipped is not None else on.success",
            "on.skipped",
        ),
    ),
    fault(
        "D26",
        "`_start` is reached by falling through",
        swap(
            "machine/routing.py:resume_list",
            "index == scope.block.entry or (scope.kept and index in scope.kept)",
            "scope.kept and index in scope.kept",
        ),
    ),
    fault(
        "D26",
        "the first step is the entry though there is a `_start`",
        swap(
            "language/workflow.py:_main",
            "next((number for number, step in enumerate(ordered) if step.step_id == START), 0)",
            "0",
        ),
    ),
    fault(
        "D26",
        "`validate` does not warn where the list suggests that `_start` is fallen into",
        drop("language/blocks.py:_check_ways", "_check_start(...)"),
    ),
    fault(
        "D27",
        "`_error` stays in the order of the list",
        swap(
            "language/workflow.py:_main",
            "tuple(step for step in block.steps if step.step_id != ERROR)",
            "block.steps",
        ),
    ),
    fault(
        "D27",
        "a successful `_error` step makes the run a success",
        before(
            "machine/calls.py:scope_closed",
            "start_cleanup(m, visit)",
            "call.verdict = scope.verdict or call.verdict",
        ),
    ),
    fault(
        "D43",
        "a target that does not exist is the end of the run",
        swap(
            "language/targets.py:_goto_step",
            "names.workflow.may_declare('steps', name, known)",
            "True",
        ),
    ),
    fault(
        "D43",
        "one may go out of items that run at the same time",
        swap(
            "language/targets.py:_runs_concurrently",
            "scope.kind == 'branches' or scope.concurrently or scope.needs is not None",
            "scope.kind == 'branches' or scope.needs is not None",
        ),
    ),
    fault(
        "D43",
        "a loop left by a goto does not say so",
        drop("machine/loops.py:leave_by_goto", "visit.progress.exit_reason = 'goto'"),
        swap(
            "machine/loops.py:leave_by_goto",
            "Verdict('completed', reason='goto')",
            "Verdict('completed')",
        ),
    ),
    fault(
        "D44",
        "exponential delays double one try too early",
        swap("machine/attempts.py:back_off", "2 ** min(tries - 1, 60)", "2 ** min(tries, 60)"),
    ),
    fault(
        "D44",
        "timeouts are not tried again",
        start(
            "machine/attempts.py:_is_tried_again",
            """
            if outcome.event == 'timeout' and not retry.on:
                return False
            """,
        ),
    ),
    fault(
        "D44",
        "`retry.operator` is ignored",
        swap("machine/attempts.py:after_failure", "retry.operator", "False", nth=1),
    ),
    fault(
        "D46",
        "`max_transitions` counts over the whole run",
        swap(
            "machine/routing.py:visit_node",
            "scope.gotos > workflow_of(scope).program.workflow.max_transitions",
            "m.visits > workflow_of(scope).program.workflow.max_transitions",
        ),
    ),
    fault(
        "D46",
        "`max_visits` is ignored",
        swap("machine/routing.py:visit_node", "most is not None and visited >= most", "False"),
    ),
    fault(
        "D46",
        "a cycle that was stopped can be routed",
        swap(
            "machine/routing.py:visit_node",
            "m.rules.end_workflow(m, scope, Verdict('failed', FAILED, 'cycle_guard', failure))",
            "end_scope(m, scope, Verdict('failed', FAILED, 'cycle_guard', failure))",
        ),
    ),
    fault(
        "D57",
        "more items than `max_iterations` are cut",
        swap(
            "machine/values.py:items_of",
            "body.max_iterations is not None and len(items) > body.max_iterations",
            "False",
        ),
        swap("machine/values.py:items_of", "return items", "return items[: body.max_iterations]"),
    ),
    fault(
        "D57",
        "a literal list longer than `max_iterations` is not noticed by `validate`",
        swap(
            "language/blocks.py:_items",
            "isinstance(items, Sequence) and most is not None and len(items.items) > most",
            "False",
        ),
    ),
    fault(
        "D57",
        "a text is split into a list of its lines",
        before(
            "machine/values.py:items_of",
            "if not isinstance(items, list): ...",
            """
            if isinstance(items, str):
                items = items.splitlines()
            """,
        ),
    ),
    fault(
        "D65",
        "the dependants of a failed step run",
        swap("machine/graphs.py:_settled", "how in (BAD, LEFT_OUT)", "False"),
    ),
    fault(
        "D65",
        "a step skipped by `when` does not satisfy its dependants",
        swap(
            "machine/graphs.py:ended",
            "BAD if failed else GOOD",
            "BAD if failed or outcome.event == 'skipped' else GOOD",
        ),
    ),
    fault(
        "D65",
        "a failed step that is allowed to fail skips its dependants",
        swap(
            "machine/graphs.py:ended",
            "routing.has_failed(outcome, node)",
            "outcome.event in ('failure', 'timeout')",
        ),
    ),
    fault(
        "D65",
        "a failed graph is described by the step that ended last",
        swap(
            "machine/graphs.py:ended", "graph.messages[node.index] = ...", "graph.messages = {node.index: ''}"
        ),
    ),
    fault(
        "D65",
        "a checkpoint forgets why a step of a graph failed",
        swap(
            "machine/checkpoint.py:_place_scope",
            "scope.owner = owner",
            """
            scope.owner = owner
            if scope.graph is not None: scope.graph.messages = {}
            """,
        ),
    ),
    fault(
        "D65",
        "a step of a graph may `goto` another",
        swap(
            "language/targets.py:_goto",
            "names.scope.needs is not None and not isinstance(reserved, End | ErrorStep)",
            "False",
        ),
        swap("language/targets.py:_goto_step", "if scope.needs is not None: ...", "pass"),
    ),
    fault(
        "D65",
        "a step of a graph may leave the loop around the graph",
        swap(
            "language/targets.py:_goto",
            "names.scope.needs is not None and not isinstance(reserved, End | ErrorStep)",
            "names.scope.needs is not None and reserved is None",
        ),
    ),
    fault(
        "D66",
        "a failing `finally` leaves a success a success",
        body("machine/calls.py:_cleanup_failed", "pass"),
    ),
    fault(
        "D66",
        "a failing step of `finally` ends it",
        swap("machine/flow.py", "(Way.NEXT, Way.NEXT, Way.NEXT)", "(Way.NEXT, Way.FAILED, Way.NEXT)", nth=2),
    ),
    fault(
        "D66",
        "`finally` has the time limit of the run",
        swap(
            "machine/calls.py:arm_cleanup",
            "_FINALLY_SECONDS",
            "call.program.workflow.timeout or _FINALLY_SECONDS",
        ),
    ),
    fault(
        "D66",
        "a second cancel leaves `finally` running",
        swap("machine/calls.py:cancel", "force or m.cancels > 0", "force"),
    ),
    fault(
        "D70",
        "a branch may ask how another branch has ended",
        swap("language/scopes.py:_has_ended_before", "if scope.kind == 'branches': return False", "pass"),
    ),
    fault(
        "D70",
        "steps may nest 33 deep",
        swap(
            "language/declaring.py:declare", "scope.depth() > MAX_NESTING", "scope.depth() > MAX_NESTING + 1"
        ),
    ),
    fault(
        "D70",
        "only a file that calls itself directly is noticed",
        swap(
            "language/workflow.py:_Reading._is_open",
            "file.identity in self._open",
            "file.identity == self._open[-1]",
        ),
    ),
    fault(
        "D71",
        "a retried loop continues with the time its first try has left",
        swap(
            "machine/loops.py:open_loop",
            "limit = limit_of(visit)",
            "limit = limit_of(visit) if visit.tries == 1 else 1.0",
        ),
    ),
    fault(
        "D71",
        "a loop that timed out is not tried again",
        before(
            "machine/loops.py:close",
            "attempts.after_failure(m, visit, outcome)",
            """
            if event == 'timeout':
                attempts.settle(m, visit, outcome)
                return
            """,
        ),
    ),
    fault(
        "D71",
        "`retry` of loops and calls is lost",
        swap(
            "language/blocks.py:_step_of",
            "retry if retry is not None or not retried else context.tasks.default_retry",
            "(retry if retry is not None else context.tasks.default_retry) if retried else None",
        ),
    ),
    fault(
        "R056",
        "iterations are listed in the order in which they ended",
        swap(
            "machine/values.py:_iteration",
            "[_shown(iterations[index]) for index in sorted(iterations)]",
            "[_shown(iterations[index]) for index in iterations]",
        ),
    ),
    fault(
        "R062",
        "`max_duration` of a `while` is a failure and not a timeout",
        swap(
            "machine/loops.py:timed_out",
            "Verdict('timeout', attempts.TIMED_OUT, reason, 'it took too long')",
            "Verdict('failed', attempts.TIMED_OUT, reason, 'it took too long')",
        ),
    ),
    fault(
        "R063",
        "a block succeeds if one branch does",
        swap(
            "machine/joins.py:decided",
            "'failure' if failed else 'success'",
            "'failure' if failed == total else 'success'",
        ),
    ),
    fault(
        "R063",
        "a block runs five branches at a time",
        swap("plan/plan.py:Parallel", "max_workers: int = 10", "max_workers: int = 5"),
    ),
    fault(
        "R095",
        "a step whose `when` does not hold runs all the same",
        swap(
            "machine/attempts.py:begin",
            "skip(m, visit, 'CONDITION_FALSE', '`when` does not hold')",
            "start(m, visit)",
        ),
    ),
    fault(
        "R096",
        "a block is over when its first branch has ended",
        swap("machine/joins.py:decided", "if ended < total: return None", "pass"),
    ),
    fault(
        "R097",
        "half of the items are a majority",
        swap("machine/joins.py:decided", "2 * completed > total", "2 * completed >= total"),
    ),
    fault(
        "R097",
        "the passes of a loop do not wait for the interval, and never give up",
        swap("machine/loops.py:check", "... >= body.max_iterations", "False"),
        swap(
            "machine/loops.py:limit_of",
            "node.body.max_duration if timeout is None else min(timeout, node.body.max_duration)",
            "timeout",
        ),
    ),
    fault(
        "R098",
        "a step that was visited before is not visited again",
        swap(
            "machine/routing.py:visit_node",
            "visited and scope.gotos > workflow_of(scope).program.workflow.max_transitions",
            "visited",
        ),
    ),
    fault(
        "R099",
        "the summary of a loop cannot be read by later steps",
        swap(
            "machine/loops.py:_facts",
            "{'summary': summary, 'output': '', 'exit_reason': reason or None}",
            "{'output': '', 'exit_reason': reason or None}",
        ),
    ),
]
