"""What people ask of an open run: one function per signal, with a case for each phase.

A signal that finds nothing to act on is recorded as ignored, with the reason; it never fails.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from podium.log.events import EventType
from podium.machine import attempts, calls, changes, graphs, holds, routing
from podium.machine.accounts import RUN_PATH, BudgetAccount
from podium.machine.agenda import Agenda
from podium.machine.locating import (
    IGNORED,
    INVALID,
    NOT_TERMINAL,
    RUNNING,
    TERMINAL,
    Refusal,
    locate,
    may_come_back,
    step_at,
    unknown_step,
)
from podium.machine.owed import form_of
from podium.machine.tree import Outcome, Phase, Visit
from podium.machine.values import workflow_of
from podium.plan.changes import StepChange
from podium.plan.declared import form_problem
from podium.plan.plan import Budget, FormField, Step


def accepted(m: Agenda, payload: dict[str, Any]) -> None:
    act = _SIGNALS.get(str(payload.get("signalType")))
    if act is None:
        return
    body = payload.get("payload")
    request = body if isinstance(body, dict) else {}
    if isinstance(payload.get("by"), str):
        # The authenticated sender replaces what the signal itself claims.
        request = {**request, "by": payload["by"], "byMethod": payload.get("byMethod")}
    signal_id = str(payload.get("signalId") or "")
    facts = {"signalId": signal_id}
    if request.get("reason"):
        facts["reason"] = request["reason"]
    if calls.is_over(m):
        return
    ignored = act(m, request, facts)
    if ignored:
        code = ignored.code if isinstance(ignored, Refusal) else IGNORED
        refusal = {"signalId": signal_id, "reason": str(ignored), "code": code}
        m.record(EventType.SIGNAL_IGNORED, None, 1, refusal)


def objection(m: Agenda, signal_type: str, body: dict[str, Any]) -> Refusal | None:
    """Why a signal should be refused although folding it would be harmless: it would never have an effect."""
    if signal_type != "SKIP_STEP":
        return None
    path = str(body.get("stepId") or "")
    found = locate(m, path)
    return _is_over(path) if found.where == "over" and not may_come_back(m) else None


def _pause(m: Agenda, _body: dict[str, Any], facts: dict[str, Any]) -> str:
    if m.root is None:
        return "the run is not under way"
    if "pause" in m.hold.reasons:
        return "the run is paused already"
    recorded = {**facts, "reason": "pause", **({"note": facts["reason"]} if "reason" in facts else {})}
    holds.hold(m, "pause", recorded)
    return ""


def _resume(m: Agenda, _body: dict[str, Any], facts: dict[str, Any]) -> str:
    if not m.hold.reasons:
        return "the run is not paused"
    holds.release(m, facts)
    return ""


def _cancel(m: Agenda, _body: dict[str, Any], facts: dict[str, Any]) -> str:
    return "" if calls.cancel(m, facts) else "the run has been decided already"


def _emergency_stop(m: Agenda, body: dict[str, Any], facts: dict[str, Any]) -> str:
    kill = body.get("forceKill") is not False
    return "" if calls.cancel(m, facts, force=True, kill=kill) else "the run has been decided already"


def _retry_step(m: Agenda, body: dict[str, Any], _facts: dict[str, Any]) -> str:
    path, force = str(body.get("stepId") or ""), body.get("force") is True
    visit = m.find(path)
    if visit is None:
        return _retry_ended(m, path, force=force)
    match visit.phase:
        case Phase.BACKOFF:
            m.forget(visit.wait)
            attempts.try_again(m, visit)
        case Phase.HELD | Phase.DOUBT:
            m.forget(visit.wait)
            attempts.next_attempt(visit)
            attempts.try_again(m, visit)
        case Phase.SETTLED if visit.outcome is not None and visit.outcome.event in _RETRIED[force]:
            _take_from_agenda(m, visit)
            attempts.next_attempt(visit)
            attempts.try_again(m, visit)
        case Phase.SETTLED:
            return _is_over(path)
        case _:
            return Refusal(f"step {path!r} has not ended; only a step that failed is retried", NOT_TERMINAL)
    return ""


# Outcomes, not routed yet, that can be retried without force and with it.
_RETRIED: Final = {False: ("failure", "timeout"), True: ("failure", "timeout", "success")}


def _retry_ended(m: Agenda, path: str, *, force: bool) -> str:
    found = locate(m, path)
    match found.where:
        case "unknown":
            return unknown_step(m, path)
        case "ahead":
            return Refusal(f"step {path!r} has not been reached yet", NOT_TERMINAL)
    if found.scope is not None and found.scope.graph is not None:
        node = found.scope.block.nodes[found.place]
        if graphs.retry(m, found.scope, node) or (force and graphs.repeat(m, found.scope, node)):
            return ""
    return _is_over(path)


def _is_over(path: str) -> Refusal:
    return Refusal(f"step {path!r} has ended, and the run has continued after it", TERMINAL)


def _skip_step(m: Agenda, body: dict[str, Any], _facts: dict[str, Any]) -> str:
    path = str(body.get("stepId") or "")
    visit = m.find(path)
    if visit is None:
        return _skip_later(m, path)
    match visit.phase:
        case Phase.NEW | Phase.READY | Phase.AWAITING_BUDGET | Phase.PROBE | Phase.BACKOFF:
            if visit.wait is not None:
                m.forget(visit.wait)
                visit.wait = visit.due = None
            m.spending.release(visit)
            _take_from_agenda(m, visit)
        case Phase.HELD | Phase.DOUBT:
            m.forget(visit.wait)
            attempts.next_attempt(visit)
        case Phase.SETTLED if visit.outcome is not None and visit.outcome.event in ("failure", "timeout"):
            _take_from_agenda(m, visit)
            attempts.next_attempt(visit)
        case Phase.SETTLED:
            return _is_over(path)
        case _:
            return Refusal(f"step {path!r} is running; a step is skipped before it starts", RUNNING)
    attempts.skip(m, visit, "OPERATOR_SKIP", str(body.get("reason") or "skipped by an operator"))
    return ""


def _skip_later(m: Agenda, path: str) -> str:
    """Noted in its list, for when the flow reaches the step."""
    found = locate(m, path)
    if found.where == "unknown":
        return unknown_step(m, path)
    scope = found.scope
    if scope is None and found.where == "ahead":
        return Refusal(f"what step {path!r} is in has not started yet; send the signal when it has")
    if scope is None or (scope.graph is not None and found.where == "over"):
        return _is_over(path)
    scope.skips = [*scope.skips, found.place]
    return ""


def _approve(m: Agenda, body: dict[str, Any], facts: dict[str, Any]) -> str:
    visit = _asked(m, body)
    if _is_about_the_run(m, body):
        return ""
    if visit is None:
        return "no approval is pending there"
    form = body.get("form") or {}
    if problem := form_problem(form, form_of(visit)):
        return Refusal(problem, INVALID)
    m.forget(visit.wait)
    fields = {"form": form, **_sender(body)}
    outcome = Outcome("success", 0, facts=fields)
    if visit.phase is Phase.DOUBT:
        # The step did take effect: that is recorded as the next attempt, since the log has the end of the
        # doubtful one.
        attempts.next_attempt(visit)
    attempts.record_end(m, visit, outcome, **{**fields, **facts})
    attempts.settle(m, visit, outcome)
    return ""


def _is_about_the_run(m: Agenda, body: dict[str, Any]) -> bool:
    """Whether it approves or rejects the start of the run: that is decided elsewhere, before the machine is
    involved.

    Such an answer names the plan. Without one, nothing in a run that has not started waits for a person.
    """
    return m.root is None and body.get("stepId") is None and body.get("planSha256") is not None


def form_asked_by(m: Agenda, body: dict[str, Any]) -> Mapping[str, FormField]:
    """The form that an answer with this body would fill in; empty if there is none."""
    visit = _asked(m, body)
    return form_of(visit) if visit is not None else {}


def _sender(body: dict[str, Any]) -> dict[str, Any]:
    """Who answered: the authenticated user, the method, and the name that the sender gave."""
    sender = {"by": body.get("by")}
    return sender | {name: body[name] for name in ("byMethod", "claimedBy") if body.get(name) is not None}


def _reject(m: Agenda, body: dict[str, Any], facts: dict[str, Any]) -> str:
    visit = _asked(m, body)
    if _is_about_the_run(m, body):
        return ""
    if visit is None:
        return "no approval is pending there"
    m.forget(visit.wait)
    reason = str(body.get("reason") or "rejected")
    failure = {"category": "USER", "code": "REJECTED", "message": reason, "retryable": False}
    outcome = Outcome("failure", routing.FAILED, error=failure, facts=_sender(body))
    if visit.phase is Phase.ASK:
        attempts.record_end(m, visit, outcome, **{**_sender(body), **facts})
        target = body.get("to")
        if isinstance(target, str) and not visit.scope.block.is_graph and target in visit.scope.block.index:
            visit.goto = target
    attempts.settle(m, visit, outcome)
    return ""


def _update_params(m: Agenda, body: dict[str, Any], _facts: dict[str, Any]) -> str:
    """Applies to what is evaluated later; it releases no hold."""
    params = body.get("params")
    if not isinstance(params, dict) or m.root is None or not m.root.scopes:
        return "there is nothing to change"
    context, budget, of_steps = params.get("context"), params.get("budget"), params.get("budgets")
    if isinstance(context, dict):
        workflow_of(next(iter(m.root.scopes.values()))).context.update(context)
        m.report_context()
    if isinstance(budget, dict):
        _change_budget(m, m.spending.accounts[RUN_PATH], budget)
    unknown = ""
    for path, budget in of_steps.items() if isinstance(of_steps, dict) else ():
        account = m.spending.accounts.get(path)
        if account is not None and isinstance(budget, dict):
            _change_budget(m, account, budget)
        else:
            unknown = f"nothing that is open has a budget of its own at {path!r}"
    written = params.get("written")
    for path, budget in written.items() if isinstance(written, dict) else ():
        m.spending.write(path, _changed(Budget(), budget) if isinstance(budget, dict) else None)
        m.spending.moved = True
    return unknown


def _inject_override(m: Agenda, body: dict[str, Any], facts: dict[str, Any]) -> str:
    from podium.plan.overrides import override_problem  # most runs change nothing

    override = body.get("override")
    if not isinstance(override, dict):
        return Refusal("'override' has to be a map", INVALID)
    return _change(
        m, body, StepChange((facts["signalId"],), override), lambda step: override_problem(step, override)
    )


def _update_target(m: Agenda, body: dict[str, Any], facts: dict[str, Any]) -> str:
    from podium.plan.overrides import target_problem  # most runs change nothing

    target = body.get("newTarget")
    if not isinstance(target, str):
        return Refusal("'newTarget' has to be a text", INVALID)
    change = StepChange((facts["signalId"],), target=target)
    return _change(m, body, change, lambda step: target_problem(step, target))


def _change(
    m: Agenda, body: dict[str, Any], change: StepChange, problem_of: Callable[[Step], str | None]
) -> str:
    """Applies to attempts that are launched from now on; it releases no hold."""
    path = str(body.get("stepId") or "")
    step = step_at(m, path)
    if step is None:
        return unknown_step(m, path)
    if problem := problem_of(step):
        return Refusal(f"step {path!r} cannot be changed like this: {problem}", INVALID)
    if _has_no_next_attempt(m, path):
        return _is_over(path)
    changes.add(m, path, change)
    return ""


def _has_no_next_attempt(m: Agenda, path: str) -> bool:
    """A step that failed in an open graph, or while the run is paused, can be retried, and so can its
    dependants.
    """
    found = locate(m, path)
    if may_come_back(m):
        return False
    if found.where == "over":
        graph = found.scope.graph if found.scope is not None else None
        return graph is None or graph.states[found.place] not in (graphs.BAD, graphs.LEFT_OUT)
    outcome = found.visit.outcome if found.visit is not None and found.visit.phase is Phase.SETTLED else None
    return outcome is not None and outcome.event in ("success", "skipped")


def _change_budget(m: Agenda, account: BudgetAccount, budget: dict[str, Any]) -> None:
    account.change(_changed(account.budget or Budget(), budget))
    m.spending.moved = True


def _changed(old: Budget, budget: dict[str, Any]) -> Budget:
    return Budget(
        usd=_number(budget, "usd", old.usd),
        tokens=_number(budget, "tokens", old.tokens),
        soft=_number(budget, "soft", old.soft),
        reserve=_number(budget, "reserve", old.reserve),
    )


def _number(budget: dict[str, Any], name: str, old: Any) -> Any:
    """Anything but a number changes nothing; null removes a limit."""
    value = budget.get(name, old)
    return value if value is None or (isinstance(value, int | float) and value is not True) else old


def _asked(m: Agenda, body: dict[str, Any]) -> Visit | None:
    path = body.get("stepId")
    if path is None:
        waiting = [visit for visit in m.waits.values() if visit.phase in (Phase.ASK, Phase.DOUBT)]
        return waiting[0] if len(set(map(id, waiting))) == 1 else None
    visit = m.find(str(path))
    return (
        visit
        if visit is not None and visit.phase in (Phase.ASK, Phase.DOUBT) and not visit.stopping
        else None
    )


def _take_from_agenda(m: Agenda, visit: Visit) -> None:
    """Remove what was scheduled for the visit."""
    kept = [entry for entry in m.agenda if entry[1] is not visit]
    m.agenda.clear()
    m.agenda.extend(kept)


_SIGNALS: Final[dict[str, Callable[[Agenda, dict[str, Any], dict[str, Any]], str]]] = {
    "PAUSE": _pause,
    "RESUME": _resume,
    "CANCEL": _cancel,
    "EMERGENCY_STOP": _emergency_stop,
    "RETRY_STEP": _retry_step,
    "SKIP_STEP": _skip_step,
    "APPROVE": _approve,
    "REJECT": _reject,
    "UPDATE_PARAMS": _update_params,
    "INJECT_OVERRIDE": _inject_override,
    "UPDATE_TARGET": _update_target,
}
