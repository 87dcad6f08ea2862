"""Which tasks run, which wait for a slot, and which engine attempt of a task is under way."""

import asyncio
import math
from collections import deque
from collections.abc import Iterable

from podium.log.events import EventRecord, EventType
from podium.log.transitions import TASK_ENDS
from podium.machine.commands import RunTask

TaskKey = tuple[str, int]


class TaskSlots:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        # The run has lost its own slot: no task starts.
        self.suspended = False
        # By the clock of the loop: until then the run certainly has its slot.
        self.leased_until = math.inf
        # Ordered and not started.
        self._waiting: deque[RunTask] = deque()
        self._running: set[TaskKey] = set()
        self.engine_attempts: dict[TaskKey, int] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    def has_room(self) -> bool:
        if asyncio.get_running_loop().time() > self.leased_until:
            # This process was frozen: another run may work in the slot. The lease keeper finds out.
            self.suspended = True
        return len(self._running) < self._limit and not self.suspended

    def is_running(self, key: TaskKey) -> bool:
        return key in self._running

    def queue(self, task: RunTask) -> None:
        self._waiting.append(task)

    def take_next(self) -> RunTask | None:
        """The next task that waits, if there is a slot for it."""
        return self._waiting.popleft() if self._waiting and self.has_room() else None

    def drop(self, key: TaskKey) -> None:
        """It does not wait any more."""
        for task in self._waiting:
            if (task.path, task.attempt) == key:
                self._waiting.remove(task)
                return

    def clear_queue(self) -> None:
        self._waiting.clear()

    def occupy(self, keys: Iterable[TaskKey]) -> None:
        self._running.update(keys)

    def free(self, keys: Iterable[TaskKey]) -> None:
        self._running.difference_update(keys)

    def engine_attempt(self, key: TaskKey) -> int:
        return self.engine_attempts.get(key, 1)

    def start_over(self, key: TaskKey) -> None:
        """The process that carried it out is gone: this is its next engine attempt."""
        self.engine_attempts[key] = self.engine_attempt(key) + 1

    def count(self, record: EventRecord) -> None:
        """Which engine attempt of a task is under way; forgotten with its end."""
        if record.step_id is None:
            return
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type == EventType.STEP_STARTED:
            # What this process has counted already counts: the log has the first of them only.
            self.engine_attempts.setdefault(key, record.engine_attempt_id)
        elif record.event_type in TASK_ENDS:
            self.engine_attempts.pop(key, None)
