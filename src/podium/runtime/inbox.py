"""What is to be recorded next: ends of tasks, timers, answers, signals; in order of arrival."""

import asyncio
from collections import deque
from typing import Any, Final, TypeAlias

import msgspec

from podium.log.events import EventType
from podium.log.times import Timestamp
from podium.log.transitions import TASK_ENDS

Key: TypeAlias = tuple[str, int] | str


class PendingEvent(msgspec.Struct, eq=False):
    """An event that is to be recorded."""

    event_type: str
    path: str | None = None
    attempt: int = 1
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    engine_attempt: int = 1
    # The timer, probe or signal that the event is about.
    subject: str | None = None
    # The payload as it is stored, if it is encoded already.
    encoded: bytes | None = None
    # When it was due: the recorded time is never earlier.
    due: Timestamp = ""

    @property
    def answers(self) -> Key | None:
        """The key of the command that it answers: the end of a task, a timer, an answer."""
        if self.event_type in TASK_ENDS:
            return (str(self.path), self.attempt)
        if self.event_type in (EventType.TIMER_FIRED, EventType.PROBE_ANSWERED):
            return self.subject
        return None


# Not an event: other processes have written to the log.
NUDGE: Final = PendingEvent("")


class Inbox:
    def __init__(self) -> None:
        self._pending: deque[PendingEvent] = deque()
        # Taken and not recorded yet.
        self._taken: list[PendingEvent] = []
        # The commands answered by these, which must not be performed again. None until it is needed: usually
        # it never is.
        self._answered: set[Key | None] | None = None
        self._wake = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._pending)

    def submit(self, pending: PendingEvent) -> None:
        self._pending.append(pending)
        if self._answered is not None:
            self._answered.add(pending.answers)
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def wait(self) -> None:
        """Wait until there is an event, or until `wake` is called."""
        if not self._pending:
            self._wake.clear()
            await self._wake.wait()

    @property
    def first(self) -> PendingEvent:
        return self._pending[0]

    def take(self) -> PendingEvent:
        """Take the next event, which counts as answered until it is `recorded`."""
        pending = self._pending.popleft()
        self._taken.append(pending)
        return pending

    def put_back(self) -> None:
        """What was taken has not been recorded: put it back."""
        self._pending.extendleft(reversed(self._taken))
        self._taken.clear()

    def recorded(self) -> None:
        """What was taken has been recorded."""
        self._taken.clear()
        self._answered = None

    def answers(self, key: Key) -> bool:
        if self._answered is None:
            self._answered = {pending.answers for pending in (*self._pending, *self._taken)}
        return key in self._answered
