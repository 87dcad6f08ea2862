"""How decisions, and the ends of what was stopped, appear in the log: the same whichever engine drives a run."""

from typing import Any, Final

from podium.log.drafts import EventDraft
from podium.log.events import EventType
from podium.machine.commands import CancelTask, Record

# Decisions that are about something other than a step's attempt, and where their payload names it.
_SUBJECTS: Final[dict[str, str]] = {
    EventType.SIGNAL_IGNORED: "signalId",
    EventType.BUDGET_CHARGED: "stepId",
}
# Of errors that are not the fault of the step.
_CATEGORIES: Final = {"INTERRUPTED": "PLATFORM", "JOIN_DECIDED": "SYSTEM", "TIMEOUT": "TIMEOUT"}


def subject_of(record: Record) -> str | None:
    name = _SUBJECTS.get(record.event_type)
    return record.payload[name] if name is not None else None


def draft_of(record: Record) -> EventDraft:
    return EventDraft(record.event_type, record.path, record.attempt, record.payload, subject_of(record))


def error_category(code: str) -> str:
    return _CATEGORIES.get(code, "USER")


def stop_code(command: CancelTask) -> str:
    """The code of the answer to a stop."""
    return "CANCELLED" if command.code == "FORCED" else command.code


def stopped_payload(code: str, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    """Of StepFailed: the attempt ended because something around it wanted it to."""
    error = {"category": error_category(code), "code": code, "message": "stopped", "retryable": False}
    return {"error": error, **(facts or {})}


def failure_payload(exit_code: int, code: str, message: str, *, reason: str) -> dict[str, Any]:
    """Of RunFailed: the run ended for a reason that is not in its plan."""
    error = {"category": "SYSTEM", "code": code, "message": message, "retryable": False}
    return {"exitCode": exit_code, "reason": reason, "error": error}
