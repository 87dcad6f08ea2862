"""What the log says of an attempt that was stopped from outside."""

from typing import Any, Final

from podium.log.events import EventType
from podium.machine.agenda import Agenda
from podium.machine.tree import Visit

# Neither is in the log: why a task is stopped is one of the categories below.
FORCED: Final = "FORCED"
WITHOUT_CLEANUP: Final = "WITHOUT_CLEANUP"
_CATEGORIES: Final = {"CANCELLED": "USER", "INTERRUPTED": "PLATFORM", "JOIN_DECIDED": "SYSTEM"}


def record_stopped(m: Agenda, visit: Visit, code: str) -> None:
    """The end of what only the machine carries out, when it is stopped."""
    told = {
        "category": _CATEGORIES[stop_code(code)],
        "code": stop_code(code),
        "message": "stopped",
        "retryable": False,
    }
    m.record(EventType.STEP_FAILED, visit.path, visit.attempt, {"error": told})


def stop_code(code: str) -> str:
    """The code that is in the log: why it was stopped, for those who only see the step."""
    return code if code in _CATEGORIES else "CANCELLED"


def is_stop(error: dict[str, Any]) -> bool:
    """Whether an attempt ended because it was stopped, and not by itself."""
    return error.get("code") in _CATEGORIES
