"""Events that a follower gave to workers, to be recorded before an attempt starts. Only the log shows whether
they were.
"""

from collections.abc import Iterable
from typing import Any, Final

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType
from podium.log.transitions import TASK_ENDS
from podium.machine.task_queue import TaskKey

_Identity = tuple[str, str | None, int, Any]
# The payload field that identifies an event whose subject is not an attempt of a step.
_NAMED_IN: Final[dict[str, str]] = {
    EventType.TIMER_FIRED: "key",
    EventType.PROBE_ANSWERED: "key",
    EventType.SIGNAL_IGNORED: "signalId",
    EventType.BUDGET_CHARGED: "stepId",
    EventType.NOTIFICATION_DUE: "subject",
}


class Carried:
    def __init__(self) -> None:
        # Not seen in the log yet, in the order of the decisions.
        self._events: dict[_Identity, EventDraft] = {}
        # Wake-ups that a worker deletes together with them.
        self._dropped: dict[TaskKey, list[str]] = {}
        self._is_taken_back = False

    def give(self, key: TaskKey, events: Iterable[EventDraft], dropped: list[str]) -> None:
        """Give the events to the worker of this attempt, which records its own StepStarted."""
        for draft in events:
            if (draft.event_type, draft.path, draft.attempt) != (EventType.STEP_STARTED, *key):
                self._events[_identity_of(draft)] = draft
        self._dropped[key] = dropped

    def folded(self, event: LoggedEvent) -> None:
        """The event is in the log. An attempt has one end, so after it no other end is recorded."""
        if not self._events:
            return
        self._events.pop(_identity_of(event), None)
        if event.event_type in TASK_ENDS:
            for end in TASK_ENDS:
                self._events.pop((end, event.path, event.attempt, None), None)

    def recorded(self, key: TaskKey) -> None:
        """The worker of this attempt has recorded everything it was given."""
        self._dropped.pop(key, None)

    def take_back(self, key: TaskKey) -> list[str]:
        """It is unknown whether the worker of this attempt has recorded anything. Returns its wake-ups."""
        dropped = self._dropped.pop(key, None)
        self._is_taken_back |= dropped is not None
        return dropped or []

    @property
    def is_due(self) -> bool:
        """Whether the host has to record something in place of a worker."""
        return self._is_taken_back and bool(self._events)

    def before(self, events: list[EventDraft]) -> list[EventDraft]:
        """These events, preceded by those that must be recorded with them: decisions are recorded in their
        order, even if a worker is slow.

        An event that is in both is returned once.
        """
        if self._events and (events or self._is_taken_back):
            later = {_identity_of(draft): draft for draft in events}
            events = list({**self._events, **later}.values())
        self._is_taken_back = False
        return events


def _identity_of(event: EventDraft | LoggedEvent) -> _Identity:
    """The same for a draft and its record, and for two drafts of the same event."""
    named = event.payload.get(_NAMED_IN.get(event.event_type, ""))
    return (event.event_type, event.path, event.attempt, named)
