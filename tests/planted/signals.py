"""Faults in deciding about signals."""

from typing import Final

from tests.planted.edits import before, drop, start, swap
from tests.planted.faults import Fault, fault

_DECISIONS: Final = "operations/signal_decisions.py"
_SIGNALS: Final = "operations/signals.py"
_RECORDING = "operations/signal_recording.py"
_CHECKS: Final = "operations/signal_checks.py"
_DECIDE: Final = "access/deciding.py:decide_by_roles"

FAULTS: Final[list[Fault]] = [
    fault(
        "G27",
        "a signal with the id of another one is taken for it",
        swap(f"{_DECISIONS}:repeat_decision", "not is_same", "False"),
    ),
    fault(
        "G27",
        "a refused signal is accepted when it is sent again",
        drop(f"{_DECISIONS}:repeat_decision", "if earlier.event_type == EventType.SIGNAL_REJECTED: ..."),
    ),
    fault(
        "G27",
        "two callers decide about one id at the same time",
        swap(f"{_SIGNALS}:_condition", "None if is_last else head", "None"),
    ),
    fault(
        "G27",
        "the id of a refused signal may be used for another one",
        swap(f"{_DECISIONS}:earlier_decision", "_DECISIONS", "_DECISIONS[:1]"),
    ),
    fault(
        "G23",
        "a run that has ended is signalled",
        drop(f"{_SIGNALS}:_accepted", "if run.status in TERMINAL: ..."),
    ),
    fault(
        "G24",
        "no role is needed to send a signal",
        swap(_DECIDE, "operation.role not in roles", "False"),
    ),
    fault(
        "G24",
        "no reason is needed",
        swap("access/deciding.py:_reason_missing", "operation.needs_reason", "False"),
    ),
    fault(
        "G24",
        "a reason of blanks is one",
        swap("access/deciding.py:_reason_missing", "reason.strip()", "reason"),
    ),
    fault(
        "G24",
        "an admin may approve",
        swap("access/roles.py", "frozenset({Role.ENGINEER, Role.OPERATOR, Role.AUDITOR})", "frozenset(Role)"),
    ),
    fault(
        "G24",
        "the state of a run is looked at before the role of the sender",
        before(
            f"{_RECORDING}:recording_refusals",
            "await authorise(store, run, signal)",
            "if run.status.value in ('COMPLETED', 'FAILED', 'CANCELLED'):\n    raise RunIsOver('over')",
        ),
    ),
    fault(
        "G24",
        "the role of the sender is looked at before what the signal carries",
        swap(
            f"{_RECORDING}:recording_refusals",
            "if malformed is not None: ...",
            "await authorise(store, run, signal)\nif malformed is not None:\n    raise malformed",
        ),
    ),
    fault(
        "G24",
        "a refused signal is not in the audit log",
        drop(f"{_DECISIONS}:_append_refusal", "audit=audit"),
    ),
    fault(
        "G24",
        "an accepted signal is not in the audit log",
        drop(f"{_SIGNALS}:_append", "audit=audit"),
    ),
    fault(
        "G24",
        "RETRY_RUN needs no role",
        swap(
            "operations/retrying.py:retry_run",
            "async with recording_refusals(...): ...",
            "return await _retried(parts, run, signal)",
        ),
    ),
    fault(
        "G35",
        "who has no role in a tenant learns that a run is there",
        swap(
            f"{_CHECKS}:find_run",
            "raise malformed or RunNotFound(run_id)",
            "await getattr(store.runs, 'unguarded', store.runs).find(tenant_id, run_id)\n"
            "raise malformed or NotAllowed(str(found))",
        ),
    ),
    fault(
        "G35",
        "an attempt at another tenant's run is not audited",
        drop(f"{_CHECKS}:find_run", "await store.record_audit(...)"),
    ),
    fault(
        "G38",
        "a run that has not ended is run again",
        drop("operations/retrying.py:_check_state", "if run.status not in TERMINAL: ..."),
    ),
    fault(
        "G38",
        "a step that waits for its operator is not retried",
        start(
            "machine/signals.py:_retry_step",
            "held = m.find(str(body.get('stepId') or ''))\n"
            "if held is not None and held.phase is Phase.HELD:\n    return 'it waits'",
        ),
    ),
    fault(
        "G27",
        "a retry of a run forgets what was decided about its id",
        swap("operations/retrying.py:_retried", "earlier is not None", "False"),
    ),
    fault(
        "G23",
        "Ctrl-C does not say who stopped the run",
        swap("operations/drive.py:_NamedDriving.cancel", "by or self._actor()", "by"),
    ),
    fault(
        "G24",
        "refusals above the limit are not audited",
        drop("operations/signal_decisions.py:record_refusal", "await audit_refusal(...)"),
    ),
    fault(
        "G24",
        "a signal that comes too soon is not audited",
        drop(f"{_RECORDING}:recording_refusals", "await audit_refusal(...)"),
    ),
    fault(
        "G24",
        "a viewer may cancel an ended run",
        drop("operations/cancel.py:_ask", "await check_may_drive(...)", nth=1),
    ),
]
