"""The timers of a run: each is answered by TimerFired, once and not before it is due."""

import asyncio
from collections.abc import Callable, Container

from podium.log.events import EventType
from podium.machine.commands import SetTimer
from podium.runtime.drive_clock import MAX_WAIT_SECONDS, DriveClock
from podium.runtime.inbox import PendingEvent


class Timers:
    def __init__(self, clock: DriveClock, submit: Callable[[PendingEvent], None]) -> None:
        self._clock = clock
        self._submit = submit
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._handles

    def set(self, timer: SetTimer) -> None:
        self._wait_for(timer, self._clock.deadline(timer.due))

    def drop(self, key: str) -> None:
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def keep_only(self, due: Container[str]) -> None:
        for key in [key for key in self._handles if key not in due]:
            self.drop(key)

    def _wait_for(self, timer: SetTimer, deadline: float) -> None:
        seconds = min(max(0.0, deadline - self._clock.elapsed()), MAX_WAIT_SECONDS)
        loop = asyncio.get_running_loop()
        self._handles[timer.key] = loop.call_later(seconds, self._fire, timer, deadline)

    def _fire(self, timer: SetTimer, deadline: float) -> None:
        # The loop's clock drifts, and stops while the computer is suspended: a timer must not fire early.
        if self._clock.elapsed() < deadline:
            self._wait_for(timer, deadline)
            return
        self._handles.pop(timer.key, None)
        payload = {"key": timer.key}
        self._submit(PendingEvent(EventType.TIMER_FIRED, payload=payload, subject=timer.key, due=timer.due))
