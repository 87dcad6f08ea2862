"""What the log says about an attempt that was stopped from outside."""

from typing import Any, Final

from podium.log.events import EventType
from podium.machine.agenda import Agenda
from podium.machine.tree import Visit

# Internal codes that are not in the log; it has one of the categories below.
FORCED: Final = "FORCED"
WITHOUT_CLEANUP: Final = "WITHOUT_CLEANUP"
_CATEGORIES: Final = {"CANCELLED": "USER", "INTERRUPTED": "PLATFORM", "JOIN_DECIDED": "SYSTEM"}


def record_stopped(m: Agenda, visit: Visit, code: str) -> None:
    """The end of a step that the machine itself executes, when it is stopped."""
    failure = {
        "category": _CATEGORIES[stop_code(code)],
        "code": stop_code(code),
        "message": "stopped",
        "retryable": False,
    }
    m.record(EventType.STEP_FAILED, visit.path, visit.attempt, {"error": failure})


def stop_code(code: str) -> str:
    """The code in the log: why it was stopped, for readers that see only the step."""
    return code if code in _CATEGORIES else "CANCELLED"


def is_stop(error: dict[str, Any]) -> bool:
    """Whether an attempt ended because it was stopped, and not by itself."""
    return error.get("code") in _CATEGORIES
