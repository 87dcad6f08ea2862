"""Which status follows from which event: the tables that everything else reads.

The projector folds by them, stores derive a run's status from them, and the diagrams in `docs/contract.md`
are drawn from them. An event that a table does not allow is kept in the log and changes nothing.
"""

from enum import StrEnum
from typing import Final

from podium.log.events import EventType


class RunStatus(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class StepStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


NOT_STARTED: Final = frozenset({RunStatus.PENDING, RunStatus.APPROVED})
# Started, and not ended.
IN_PROGRESS: Final = frozenset({RunStatus.RUNNING, RunStatus.PAUSED})
TERMINAL: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
OPEN: Final = NOT_STARTED | IN_PROGRESS
ENDED: Final = frozenset({StepStatus.SUCCESS, StepStatus.FAILED, StepStatus.SKIPPED})

_P, _A, _R, _H = RunStatus.PENDING, RunStatus.APPROVED, RunStatus.RUNNING, RunStatus.PAUSED

# event: (allowed statuses before, status after). A run that was just created is PENDING.
RUN_TRANSITIONS: Final[dict[str, tuple[frozenset[RunStatus], RunStatus]]] = {
    EventType.RUN_QUEUED: (frozenset({_P}), _P),
    EventType.RUN_APPROVED: (frozenset({_P}), _A),
    # From RUNNING: a run that was reopened after it had ended before its start.
    EventType.RUN_STARTED: (frozenset({_P, _A, _R}), _R),
    EventType.RUN_PAUSED: (frozenset({_R}), _H),
    EventType.RUN_RESUMED: (frozenset({_H}), _R),
    EventType.RUN_COMPLETED: (frozenset({_R}), RunStatus.COMPLETED),
    # Limits are suspended while a run is paused, so a paused run never fails.
    EventType.RUN_FAILED: (frozenset({_P, _A, _R}), RunStatus.FAILED),
    EventType.RUN_CANCELLED: (frozenset({_P, _A, _R, _H}), RunStatus.CANCELLED),
    EventType.RUN_REOPENED: (frozenset({RunStatus.FAILED, RunStatus.CANCELLED}), _R),
}

_NEW, _UP = StepStatus.PENDING, StepStatus.RUNNING

# For one attempt of a step. A retry is another attempt; an attempt that has ended does not change.
STEP_TRANSITIONS: Final[dict[str, tuple[frozenset[StepStatus], StepStatus]]] = {
    EventType.STEP_STARTED: (frozenset({_NEW}), _UP),
    EventType.STEP_COMPLETED: (frozenset({_NEW, _UP}), StepStatus.SUCCESS),
    EventType.STEP_FAILED: (frozenset({_NEW, _UP}), StepStatus.FAILED),
    EventType.STEP_SKIPPED: (frozenset({_NEW}), StepStatus.SKIPPED),
    # In doubt: what happened to the attempt is unknown and will remain so. When a run is reopened, the doubt
    # about an attempt that was stopped becomes an attempt of its own, because the stopped one already has its
    # end.
    EventType.STEP_INTERRUPTED: (frozenset({_NEW, _UP}), StepStatus.FAILED),
}

RUN_ENDS: Final = frozenset(event for event, (_, after) in RUN_TRANSITIONS.items() if after in TERMINAL)
STEP_ENDS: Final = frozenset(event for event, (_, after) in STEP_TRANSITIONS.items() if after in ENDED)
# Possible ends of a task: only the machine skips.
TASK_ENDS: Final = STEP_ENDS - {EventType.STEP_SKIPPED}

# An attempt has one end: an end is refused if one of these is recorded for the same attempt. One pair is
# allowed: the failure of an attempt that was stopped, followed by the doubt about what it had done by then.
EXCLUDED_BY: Final[dict[str, tuple[str, ...]]] = {
    end: tuple(
        other
        for other in sorted(STEP_ENDS)
        if other is not end and (end, other) != (EventType.STEP_INTERRUPTED, EventType.STEP_FAILED)
    )
    for end in STEP_ENDS
}

# What may still be recorded once a run has ended; all unknown types may be, too.
AFTER_THE_END: Final = frozenset(
    {
        EventType.SIGNAL_REJECTED,
        EventType.ALERT_RAISED,
        EventType.BUDGET_CHARGED,
        EventType.NOTIFICATION_DUE,
        EventType.RUN_REOPENED,
    }
)


def run_status_after(status: RunStatus, event_type: str) -> RunStatus | None:
    """The status of a run after an event; None if the event is not allowed in this status. Events that are
    not in the table keep it.
    """
    transition = RUN_TRANSITIONS.get(event_type)
    if transition is None:
        return status
    before, after = transition
    return after if status in before else None
