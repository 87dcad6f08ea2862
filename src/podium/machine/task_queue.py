"""Which tasks of a run are running, and which wait for a free slot."""

from collections import deque
from collections.abc import Iterable

from podium.machine.commands import RunTask

TaskKey = tuple[str, int]


class TaskQueue:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Ordered and not started.
        self._waiting: deque[RunTask] = deque()
        self._running: set[TaskKey] = set()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def has_room(self) -> bool:
        return len(self._running) < self._limit

    def is_running(self, key: TaskKey) -> bool:
        return key in self._running

    def queue(self, task: RunTask) -> None:
        self._waiting.append(task)

    def put_back(self, task: RunTask) -> None:
        """Put a task back to the front of the queue."""
        self._waiting.appendleft(task)

    def take_next(self) -> RunTask | None:
        """The next waiting task, if a slot is free."""
        return self._waiting.popleft() if self._waiting and self.has_room() else None

    def drop(self, key: TaskKey) -> None:
        """Remove a task from the queue."""
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
