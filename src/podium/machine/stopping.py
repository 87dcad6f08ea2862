"""Stopping: decided joins, timeouts, `end`, `error`, break, cancel. All of them use the same mechanism.

Running tasks get a CancelTask and are awaited; everything else is dropped immediately. The cost is
proportional to the number of live visits.
"""

from podium.log.events import EventType
from podium.machine import attempts, calls, loops, stop_codes
from podium.machine.agenda import Agenda
from podium.machine.tree import Phase, Scope, Verdict, Visit


def stop(m: Agenda, scope: Scope, code: str) -> None:
    scope.stopping = True
    for visit in list(scope.live.values()):
        stop_visit(m, visit, code)
    close_if_empty(m, scope)


def stop_scopes(m: Agenda, visit: Visit, code: str) -> None:
    for scope in list(visit.scopes.values()):
        stop(m, scope, code)


def close_if_empty(m: Agenda, scope: Scope) -> None:
    """Notify the owner, once, that nothing inside is live."""
    owner = scope.owner
    if scope.live or owner.scopes.get(scope.index) is not scope:
        return
    if scope.verdict is None and not scope.stopping:
        return
    if owner.call is not None:
        calls.scope_closed(m, owner, scope)
    else:
        loops.scope_closed(m, owner, scope)


def stop_visit(m: Agenda, visit: Visit, code: str) -> None:
    match visit.phase:
        case Phase.RUN if visit.handed:
            if visit.stopping and code != stop_codes.FORCED:
                return
            visit.stopping = True
            visit.stop_code = code
            m.touch(visit.wait)
        case Phase.OPEN | Phase.COND | Phase.INTERVAL:
            _stop_composite(m, visit, code)
        case Phase.ASK:
            m.forget(visit.wait)
            stop_codes.record_stopped(m, visit, code)
            attempts.drop(m, visit)
        case _:
            if visit.wait is not None:
                m.forget(visit.wait)
            if visit.tries > 1 and visit.phase in (
                Phase.BACKOFF,
                Phase.READY,
                Phase.AWAITING_BUDGET,
                Phase.RUN,
            ):
                # Its next attempt was announced: the log has to say that it never started.
                payload = {"reasonCode": _reason(code), "reason": "what it belongs to has ended"}
                m.record(EventType.STEP_SKIPPED, visit.path, visit.attempt, payload)
            attempts.drop(m, visit)


def _stop_composite(m: Agenda, visit: Visit, code: str) -> None:
    visit.stopping = True
    visit.stop_code = code
    if visit.wait is not None:
        m.forget(visit.wait)
        visit.wait = visit.due = None
    visit.phase = Phase.OPEN
    if visit.call is not None:
        # Its own `finally` runs before the parent is notified.
        verdict = Verdict("cancelled", calls.CANCELLED, "stopped")
        force = code in (stop_codes.FORCED, stop_codes.WITHOUT_CLEANUP)
        calls.decide(m, visit, verdict, force=force, kill=code == stop_codes.FORCED)
        return
    stop_scopes(m, visit, code)
    if not visit.scopes:
        loops.close(m, visit)


def _reason(code: str) -> str:
    return "JOIN_DECIDED" if code == "JOIN_DECIDED" else "SCOPE_CLOSED"
