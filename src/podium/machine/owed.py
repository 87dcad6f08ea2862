"""What is owed while a visit is in a phase: the only place where a phase becomes a command or an obligation.

| phase | waits for | key in `waits` | owed command | obligation |
| --- | --- | --- | --- | --- |
| NEW, READY | the agenda | - | - | the hold |
| AWAITING_BUDGET | the end of an agent that runs, or a person | - | - | budget; the hold |
| PROBE, COND | ProbeAnswered | `path\\|attempt\\|when\\|n`, `path\\|attempt\\|pass\\|n` | Probe | probe |
| RUN | the end of the attempt | (path, attempt) | RunTask; when stopping CancelTask | slot, then task |
| BACKOFF, INTERVAL | TimerFired | `path\\|attempt\\|kind\\|n` | SetTimer | timer |
| ASK, HELD, DOUBT | a person | (path, attempt, "ask"); HELD: a timer | HELD: SetTimer | approval, operator, doubt |
| OPEN | its child scopes | its limit timer, if any | SetTimer | limit, and those of its children |
| SETTLED | routing, parked by a hold | - | - | the hold |
"""

from collections.abc import Mapping
from typing import Any

from podium.machine.commands import CancelTask, Command, Probe, RunTask, SetTimer
from podium.machine.obligations import Obligation
from podium.machine.stop_codes import FORCED, stop_code
from podium.machine.tree import RUN, Phase, Visit
from podium.plan.plan import Approval, FormField


def command(key: Any, visit: Visit) -> Command | None:
    """What is owed for this key; None if only a person can act."""
    if key == visit.limit and visit.limit_due is not None:
        return SetTimer(str(key), visit.limit_due)
    if visit.phase is RUN:
        if visit.stopping:
            code = stop_code(visit.stop_code)
            return CancelTask(visit.path, visit.attempt, visit.stop_code == FORCED, code)
        values = dict(visit.values) if visit.values is not None else None
        if visit.change is not None:
            from podium.plan.overrides import changed  # most runs change nothing

            step = changed(visit.node.step, visit.change)
            return RunTask(visit.path, visit.attempt, step, values, visit.change)
        return RunTask(visit.path, visit.attempt, visit.node.step, values)
    match visit.phase:
        case Phase.INTERVAL | Phase.BACKOFF | Phase.HELD if visit.due is not None:
            return SetTimer(str(key), visit.due)
        case Phase.PROBE | Phase.COND:
            return Probe(str(key), visit.questions)
        case _:
            return None


def obligation(key: Any, visit: Visit) -> Obligation:
    if key == visit.limit:
        return Obligation("limit", visit.path, visit.attempt, deadline=visit.limit_due)
    match visit.phase:
        case Phase.RUN:
            detail = "stopping" if visit.stopping else ""
            return Obligation("task" if visit.started else "slot", visit.path, visit.attempt, detail=detail)
        case Phase.BACKOFF:
            return _next_try(visit)
        case Phase.INTERVAL:
            return Obligation("timer", visit.path, visit.attempt, deadline=visit.due, detail="the next pass")
        case Phase.HELD:
            return Obligation("operator", visit.path, visit.attempt, deadline=visit.due)
        case Phase.PROBE | Phase.COND:
            return Obligation("probe", visit.path, visit.attempt)
        case Phase.DOUBT:
            return Obligation("doubt", visit.path, visit.attempt)
        case _:
            return Obligation(
                "approval", visit.path, visit.attempt, deadline=visit.limit_due, form=form_of(visit)
            )


def _next_try(visit: Visit) -> Obligation:
    retry = visit.node.step.retry
    return Obligation(
        "timer",
        visit.path,
        visit.attempt,
        deadline=visit.due,
        detail="the next try",
        next_try=visit.tries,
        max_tries=retry.attempts if retry is not None else 0,
    )


def form_of(visit: Visit) -> Mapping[str, FormField]:
    """The form that an approval asks for; empty for any other visit."""
    asked = visit.node.body
    return asked.form if isinstance(asked, Approval) else {}
