"""The run, and `call`, which is the same one level down: main list, `_error` if it is a target, `finally`,
end.
"""

from typing import Any, Final

from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import fill_in
from podium.log.events import EventType
from podium.machine import attempts, holds, loops, notifying, routing, stop_codes, unfinished
from podium.machine.agenda import Agenda
from podium.machine.program import WorkflowProgram
from podium.machine.tree import (
    Outcome,
    Phase,
    Scope,
    Stage,
    Verdict,
    Visit,
    WorkflowState,
    new_call,
    new_root,
    new_scope,
    prefix_of,
)
from podium.plan.loading import FINALLY
from podium.plan.plan import Call, Workflow

# Exit codes of a run; `routing` has the others.
CANCELLED: Final = 2
TIMED_OUT: Final = 3
_FINALLY_SECONDS: Final = 600
# The scopes of a workflow, by stage.
MAIN, _ERROR, CLEANUP = 0, 1, 2


def open_run(m: Agenda, inputs: dict[str, Any]) -> None:
    root = new_root(m.program)
    root.call = new_call(m.program, with_defaults(m.program.workflow, inputs))
    root.phase = Phase.OPEN
    m.root = root
    _begin(m, root, m.program.workflow.timeout)


def open_call(m: Agenda, visit: Visit, body: Call) -> None:
    program = visit.node.program or WorkflowProgram(body.workflow, {})
    visit.call = None
    view = m.view(visit.scope)
    try:
        given = {name: fill_in(data, view.lookup) for name, data in body.inputs.items()}
    except EvaluationError as error:
        attempts.fail_before_start(m, visit, error)
        return
    visit.scopes = {}
    visit.unfinished = None
    visit.call = new_call(program, with_defaults(program.workflow, given))
    visit.phase = Phase.OPEN
    m.spending.open(visit.path, program.workflow.budget)
    m.record(EventType.STEP_STARTED, visit.path, visit.attempt, {})
    _begin(m, visit, limit_of(visit))


def limit_of(visit: Visit) -> float | None:
    """How long the main list of a call may take."""
    node, call = visit.node, visit.workflow
    limits = [limit for limit in (node.step.timeout, call.program.workflow.timeout) if limit is not None]
    return min(limits) if limits else None


def is_closing(call: WorkflowState) -> bool:
    """Whether its main list has a verdict and is being stopped."""
    return call.stage is Stage.MAIN and call.verdict is not None


def is_decided(call: WorkflowState) -> bool:
    """Whether it has a verdict of its own and was not merely stopped."""
    return call.verdict is not None and call.verdict.status != "cancelled"


def with_defaults(workflow: Workflow, given: dict[str, Any]) -> dict[str, Any]:
    defaults = {name: declared.default for name, declared in workflow.inputs.items()}
    return {**defaults, **given}


def _begin(m: Agenda, visit: Visit, limit: float | None) -> None:
    call = visit.workflow
    if limit is not None:
        holds.arm(m, visit, limit)
    program = call.program
    loops.open_scope(m, visit, program.block, _prefix(visit), MAIN, entry=program.workflow.entry)


def _prefix(visit: Visit) -> str:
    return f"{prefix_of(visit)}/" if not visit.is_root else ""


# --- verdicts -------------------------------------------------------------------------------------


def end_workflow(m: Agenda, scope: Scope, verdict: Verdict, *, aimed_at_error: bool = False) -> None:
    """`end`, `error` and similar targets in any body end the workflow that contains it."""
    inner = scope
    while inner.owner.call is None:
        inner = inner.owner.scope
    owner = inner.owner
    call = owner.workflow
    if call.stage is Stage.MAIN:
        decide(m, owner, verdict, aimed_at_error=aimed_at_error)
        return
    # In `_error` or `finally`, only that list ends.
    if verdict.status == "failed":
        m.rules.keep_cleanup(m, owner)
    inner.verdict = verdict
    m.rules.stop(m, inner, "SCOPE_CLOSED")


def decide(
    m: Agenda,
    visit: Visit,
    verdict: Verdict,
    *,
    aimed_at_error: bool = False,
    force: bool = False,
    kill: bool = True,
) -> None:
    """Record the workflow's verdict, once, and stop what still runs.

    `force`: start nothing more. `kill`: give tasks no time to end by themselves.
    """
    call = visit.workflow
    if call.verdict is None:
        _record_verdict(m, visit, call, verdict)
        call.aimed_at_error = aimed_at_error
    elif not force:
        return
    elif visit is m.root and not call.no_more:
        m.rules.keep_before_force(m, visit)
    code = "CANCELLED" if verdict.status == "cancelled" else "INTERRUPTED"
    if force:
        # Start nothing more: neither `_error` nor `finally`.
        call.no_more = True
        code = stop_codes.FORCED if kill else stop_codes.WITHOUT_CLEANUP
    m.rules.stop_scopes(m, visit, code)


def _record_verdict(m: Agenda, visit: Visit, call: WorkflowState, verdict: Verdict) -> Verdict:
    call.main_completed = verdict.status == "completed"
    if visit is m.root and not call.main_completed:
        m.rules.keep(m)
    call.verdict = verdict
    return verdict


def timed_out(m: Agenda, visit: Visit) -> None:
    call = visit.workflow
    if call.stage is Stage.MAIN:
        decide(m, visit, Verdict("timeout", TIMED_OUT, "timeout", "it took too long"))
    else:
        m.rules.keep_cleanup(m, visit)
        m.rules.stop_scopes(m, visit, "CANCELLED")


# --- stages ---------------------------------------------------------------------------------------


def scope_closed(m: Agenda, visit: Visit, scope: Scope) -> None:
    """All steps of one stage have ended."""
    call = visit.workflow
    verdict = call.verdict or _record_verdict(m, visit, call, scope.verdict or _stopped())
    failed = _has_failed(scope)
    if scope.index == CLEANUP and not scope.stopping and (failed or verdict.status != "completed"):
        m.rules.keep_cleanup(m, visit)
    del visit.scopes[scope.index]
    if not visit.is_root:
        unfinished.keep_stage(visit, scope)
    if scope.index != MAIN:
        call.spent[scope.index] = scope.attempts
    match scope.index:
        case 0:
            call.main_results = scope.results
            _after_main(m, visit)
        case 1:
            start_cleanup(m, visit)
        case _:
            if failed or scope.verdict is None:
                _cleanup_failed(call)
            end(m, visit)


def _has_failed(scope: Scope) -> bool:
    return scope.failed_unhandled or (scope.verdict is not None and scope.verdict.status == "failed")


def _after_main(m: Agenda, visit: Visit) -> None:
    """The run's own limit applies to its main list only."""
    call = visit.workflow
    holds.disarm(m, visit)
    error = call.program.error
    if call.aimed_at_error and error is not None and not call.no_more:
        call.stage = Stage.ERROR
        loops.open_scope(m, visit, error, _prefix(visit), _ERROR, spent=call.spent.get(_ERROR))
    else:
        start_cleanup(m, visit)


def start_cleanup(m: Agenda, visit: Visit) -> None:
    call = visit.workflow
    cleanup = call.program.cleanup
    if cleanup is None or call.no_more:
        end(m, visit)
        return
    arm_cleanup(m, visit)
    prefix = f"{_prefix(visit)}{FINALLY}/"
    loops.open_scope(m, visit, cleanup, prefix, CLEANUP, spent=call.spent.get(CLEANUP))


def arm_cleanup(m: Agenda, visit: Visit) -> None:
    call = visit.workflow
    call.stage = Stage.FINALLY
    holds.arm(m, visit, _FINALLY_SECONDS)


def _cleanup_failed(call: WorkflowState) -> None:
    """A failing `finally` turns a success into a failure and changes no other code."""
    if call.verdict is not None and call.verdict.status == "completed":
        call.verdict = Verdict("failed", routing.FAILED, "finally", "a step of 'finally' failed")


def end(m: Agenda, visit: Visit) -> None:
    call = visit.workflow
    verdict = call.verdict or _stopped()
    call.stage = Stage.END
    holds.disarm(m, visit)
    outputs: dict[str, Any] = {}
    if verdict.status == "completed":
        try:
            outputs = _outputs(m, visit, call)
        except EvaluationError as error:
            call.verdict = verdict = Verdict("failed", routing.FAILED, "outputs", str(error), error.code)
    if visit.is_root:
        _end_run(m, verdict, outputs)
    else:
        _end_call(m, visit, verdict, outputs)


def _stopped() -> Verdict:
    return Verdict("cancelled", CANCELLED, "stopped")


def _outputs(m: Agenda, visit: Visit, call: WorkflowState) -> dict[str, Any]:
    after = new_scope(visit, call.program.block, "", MAIN)
    after.results = call.main_results
    view = m.view(after)
    return {name: fill_in(data, view.lookup) for name, data in call.program.workflow.outputs.items()}


_ENDS: Final = {"completed": EventType.RUN_COMPLETED, "cancelled": EventType.RUN_CANCELLED}


def _end_run(m: Agenda, verdict: Verdict, outputs: dict[str, Any]) -> None:
    payload: dict[str, Any] = {"exitCode": verdict.exit_code}
    if verdict.reason:
        payload["reason"] = verdict.reason
    if outputs:
        payload["outputs"] = outputs
    if verdict.status in ("failed", "timeout"):
        payload["error"] = {
            "category": "TIMEOUT" if verdict.status == "timeout" else "USER",
            "code": verdict.code or verdict.reason.upper(),
            "message": verdict.error or verdict.reason,
            "retryable": False,
        }
    notifying.run_ended(m, verdict)
    m.record(_ENDS.get(verdict.status, EventType.RUN_FAILED), None, m.opening, payload)


def _end_call(m: Agenda, visit: Visit, verdict: Verdict, outputs: dict[str, Any]) -> None:
    outcome = _outcome(verdict, outputs)
    if visit.stopping:
        by_itself = is_decided(visit.workflow) and not visit.workflow.no_more
        m.rules.ended_late(m, visit, outcome if by_itself else None)
        stop_codes.record_stopped(m, visit, visit.stop_code)
        attempts.drop(m, visit)
        return
    end_with(m, visit, outcome)


def end_with(m: Agenda, visit: Visit, outcome: Outcome) -> None:
    """The call has its outcome, and nothing remains to be done in it."""
    if outcome.event == "success":
        visit.call = visit.unfinished = None
    visit.scopes.clear()
    outputs = (outcome.facts or {}).get("outputs")
    attempts.record_end(m, visit, outcome, **({"outputs": outputs} if outputs is not None else {}))
    attempts.take_outcome(m, visit, outcome)


def _outcome(verdict: Verdict, outputs: dict[str, Any]) -> Outcome:
    if verdict.status == "completed":
        return Outcome("success", 0, facts={"outputs": outputs})
    event: Any = "timeout" if verdict.status == "timeout" else "failure"
    failure = {
        "category": "TIMEOUT" if event == "timeout" else "USER",
        "code": verdict.code or verdict.reason.upper(),
        "message": verdict.error or verdict.reason,
        "retryable": True,
    }
    return Outcome(event, verdict.exit_code, error=failure)


# --- cancelling -----------------------------------------------------------------------------------


def cancel(m: Agenda, facts: dict[str, Any], *, force: bool = False, kill: bool = True) -> bool:
    """CANCEL and EMERGENCY_STOP. A second one, or force, also stops `finally`. False: there was nothing left
    to stop.
    """
    root = m.root
    if root is None:
        if m.ends_before_start:
            return False
        m.ends_before_start = True
        m.record(
            EventType.RUN_CANCELLED, None, m.opening, {"exitCode": CANCELLED, "reason": "cancelled", **facts}
        )
        return True
    call = root.workflow
    if call.stage is Stage.END:
        return False
    holds.release(m, facts)
    force = force or m.cancels > 0
    m.cancels += 1
    verdict = Verdict("cancelled", CANCELLED, "cancelled", str(facts.get("reason") or "") or None)
    if call.verdict is not None and call.verdict.status == "completed":
        call.verdict = verdict
    if force or call.verdict is None:
        decide(m, root, verdict, force=force, kill=kill)
    return True


def is_over(m: Agenda) -> bool:
    """Whether the run's last event is owed: no event may follow it."""
    if m.root is None:
        return m.ends_before_start
    return m.root.call is not None and m.root.call.stage is Stage.END
