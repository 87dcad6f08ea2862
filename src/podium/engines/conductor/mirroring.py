"""What Conductor's page shows of a run that a worker decides about; and changes that people make there.

The status is mirrored: PAUSED while the run is held. Starts and ends of steps are lines in the log of the
task.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from podium.engines.conductor.answers import Execution, Summary
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.names import signal_id
from podium.errors import PodiumError
from podium.log.drafts import LoggedEvent
from podium.log.events import EventType

_LOG: Final = logging.getLogger(__name__)
# Limit for the log of a task.
_MAX_LINES_PER_SECOND: Final = 10
_VERBS: Final = {
    EventType.STEP_STARTED: "started",
    EventType.STEP_COMPLETED: "completed",
    EventType.STEP_FAILED: "failed",
    EventType.STEP_INTERRUPTED: "interrupted",
}
_PAUSE: Final = 0.2
_MAX_PAUSE: Final = 5.0
# How long a worker that ends waits for its last change.
_SETTLE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.02


def wish_id(found: Execution | Summary, kind: str) -> str:
    """The id of the signal for a change that a person made in Conductor: one change is one signal, however
    often it is seen.

    A running execution can be paused once, and a paused one resumed once: then the corresponding time has
    changed.
    """
    when = found.end_time if kind == "CANCEL" else found.last_retried_time
    return signal_id(found.workflow_id, f"{kind}|{found.create_time}|{when}")


class TaskLog:
    """At most this many lines per second; omitted lines are counted."""

    def __init__(self, client: ConductorClient, task_id: str) -> None:
        self._client = client
        self.task_id = task_id
        self._lines: deque[str] = deque()
        self._left_out = 0

    def note(self, event: LoggedEvent) -> None:
        verb = _VERBS.get(EventType(event.event_type)) if event.event_type in _VERBS else None
        if verb is None:
            return
        if len(self._lines) >= _MAX_LINES_PER_SECOND:
            self._left_out += 1
            return
        attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
        self._lines.append(f"{event.at} {event.path} {verb}{attempt}")

    async def keep_up(self) -> None:
        while True:
            await asyncio.sleep(1)
            await self.flush()

    async def flush(self) -> None:
        lines, self._lines = list(self._lines), deque()
        if self._left_out:
            lines.append(f"and {self._left_out} more")
            self._left_out = 0
        if lines:
            with contextlib.suppress(PodiumError):
                await self._client.log(self.task_id, "\n".join(lines))


class Mirror:
    """`wanted`: whether the run is held. `is_paused`: whether its execution is; None if the server could not
    answer.
    """

    def __init__(self, client: ConductorClient, execution: str) -> None:
        self._client = client
        self._execution = execution
        self.is_paused: bool | None = False
        self.wanted = False
        # How often it was changed here: a status read before a change is out of date.
        self.changes = 0
        # Until the server has answered, either status is possible.
        self._is_setting = False
        self._changed = asyncio.Event()

    def show(self, execution: str, *, is_paused: bool) -> None:
        """The run has another execution now."""
        self._execution = execution
        self.is_paused = is_paused
        self.changes += 1
        self._changed.set()

    def was_changed(self, *, is_paused: bool) -> None:
        """Called when a person has changed it."""
        self.is_paused = self.wanted = is_paused

    def forget(self) -> None:
        """The server could not be asked: its status is set to the log's as soon as it answers."""
        self.is_paused = None
        self._changed.set()

    def want(self, paused: bool) -> None:
        if paused != self.wanted:
            self.wanted = paused
            self.changes += 1
            self._changed.set()

    @property
    def is_true(self) -> bool:
        return self.wanted == self.is_paused and not self._is_setting

    async def keep_up(self, on_true: Callable[[], None]) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while not self.is_true:
                wanted, self._is_setting = self.wanted, True
                await patiently(lambda: self._set(wanted))  # noqa: B023 - awaited here
                self.is_paused, self._is_setting = wanted, False
            on_true()

    async def settle(self) -> None:
        """Wait until the status is mirrored, but not long: the server may be unavailable."""
        end = asyncio.get_running_loop().time() + _SETTLE_SECONDS
        while not self.is_true and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_LOOK_SECONDS)

    async def _set(self, paused: bool) -> None:
        await (self._client.pause if paused else self._client.resume)(self._execution)


async def patiently(call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call until the server has answered."""
    pause = _PAUSE
    while True:
        try:
            await call()
        except PodiumError as error:
            _LOG.warning("waiting for the server: %s", error)
        else:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)
