"""Which notifications follow from what happened.

Each is an event of its own, in the same commit as its cause, so none is lost or duplicated; a driver delivers
it later. What was copied from an earlier run was notified by that run.
"""

from collections.abc import Sequence
from typing import Any

from podium.log.events import EventType
from podium.machine.accounts import BudgetAccount
from podium.machine.agenda import Agenda
from podium.machine.tree import Outcome, Verdict, Visit
from podium.plan.loading import plan_path
from podium.plan.plan import Call, Notification, Occasion


def step_ended(m: Agenda, visit: Visit, outcome: Outcome) -> None:
    """The step has ended for good: no retry is left."""
    occasion: Occasion = "success" if outcome.event == "success" else "failure"
    facts: dict[str, Any] = {"error": outcome.error} if outcome.error else {}
    if visit.node.step.notify:
        _notify_of_step(m, visit, occasion, facts)
    body = visit.node.body
    if isinstance(body, Call) and body.workflow.notify:
        _record(m, body.workflow.notify, occasion, visit, {**facts, "isWorkflow": True})


def person_needed(m: Agenda, visit: Visit, reason: str) -> None:
    facts = {"message": reason}
    if visit.node.step.notify:
        _notify_of_step(m, visit, "waiting", facts)
    if m.plan.workflow.notify:
        _record(m, m.plan.workflow.notify, "waiting", visit, {**facts, "ofRun": True})


def run_ended(m: Agenda, verdict: Verdict) -> None:
    """The run has ended by itself: a cancelled run surprises no one."""
    if verdict.status == "cancelled" or not m.plan.workflow.notify:
        return
    occasion: Occasion = "success" if verdict.status == "completed" else "failure"
    facts: dict[str, Any] = {"ofRun": True, "status": verdict.status}
    if verdict.status != "completed":
        facts["error"] = {
            "code": verdict.code or verdict.reason.upper(),
            "message": verdict.error or verdict.reason,
        }
    _record(m, m.plan.workflow.notify, occasion, None, facts)


def budget_used(m: Agenda, visit: Visit, account: BudgetAccount) -> None:
    """Most of a budget is used: the run's, or that of a step around the charged one."""
    holder: Visit | None = visit
    while holder is not None and holder.path != account.path:
        holder = None if holder.is_root else holder.scope.owner
    if holder is None or holder.is_root:
        _record(m, m.plan.workflow.notify, "budget", visit, {"ofRun": True, "budget": account.facts()})
    else:
        facts = {"budget": account.facts(), "of": holder.path}
        _record(m, holder.node.step.notify, "budget", visit, facts)


def _notify_of_step(m: Agenda, visit: Visit, occasion: Occasion, facts: dict[str, Any]) -> None:
    _record(m, visit.node.step.notify, occasion, visit, facts)


def _record(
    m: Agenda, targets: Sequence[Notification], occasion: Occasion, visit: Visit | None, facts: dict[str, Any]
) -> None:
    """One event for each target: if one receiver does not answer, the others must not receive it twice."""
    if m.is_taking_over:
        return
    path, attempt = (visit.path, visit.attempt) if visit is not None else ("", m.opening)
    place = "" if facts.get("ofRun") else plan_path(str(facts.get("of", path)))
    level = "run" if facts.get("ofRun") else "workflow" if facts.get("isWorkflow") else "step"
    shown = {name: value for name, value in facts.items() if name not in ("ofRun", "isWorkflow", "of")}
    for index, target in enumerate(targets):
        if occasion in target.on:
            payload = {
                "subject": f"{level}:{occasion}:{index}:{path}:{attempt}",
                "on": occasion,
                "target": {"level": level, "step": place, "index": index},
                **({"stepId": path, "attempt": attempt} if visit is not None else {}),
                **shown,
            }
            m.record(EventType.NOTIFICATION_DUE, None, attempt, payload)
