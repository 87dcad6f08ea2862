"""How decisions, and the ends of stopped attempts, appear in the log: the same whichever engine drives a run."""

from typing import Any, Final

from podium.log.drafts import EventDraft
from podium.log.events import EventType
from podium.machine.commands import CancelTask, Record

# Decisions whose subject is not a step's attempt, and the payload field that names the subject.
_SUBJECTS: Final[dict[str, str]] = {
    EventType.SIGNAL_IGNORED: "signalId",
    EventType.BUDGET_CHARGED: "stepId",
    EventType.NOTIFICATION_DUE: "subject",
}
# Categories of errors that the step did not cause.
_CATEGORIES: Final = {
    "INTERRUPTED": "PLATFORM",
    "SSH_LOST": "PLATFORM",
    "SSH_FAILED": "PLATFORM",
    "JOIN_DECIDED": "SYSTEM",
    "TIMEOUT": "TIMEOUT",
}


def subject_of(record: Record) -> str | None:
    name = _SUBJECTS.get(record.event_type)
    return record.payload.get(name) if name is not None else None


def identity_of(record: Record) -> tuple[str, int, str | None]:
    """Identity of a decision whose subject is not a step's attempt."""
    return record.event_type, record.attempt, subject_of(record)


def draft_of(record: Record) -> EventDraft:
    return EventDraft(record.event_type, record.path, record.attempt, record.payload, subject_of(record))


def error_category(code: str) -> str:
    return _CATEGORIES.get(code, "USER")


def stop_code(command: CancelTask) -> str:
    """The error code in the answer to a CancelTask."""
    return "CANCELLED" if command.code == "FORCED" else command.code


def stopped_payload(code: str, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    """Payload of StepFailed for an attempt that was stopped from outside."""
    error = {"category": error_category(code), "code": code, "message": "stopped", "retryable": False}
    return {"error": error, **(facts or {})}


def failure_payload(exit_code: int, code: str, message: str, *, reason: str) -> dict[str, Any]:
    """Payload of RunFailed for a run that ended for a reason outside of its plan."""
    error = {"category": "SYSTEM", "code": code, "message": message, "retryable": False}
    return {"exitCode": exit_code, "reason": reason, "error": error}
