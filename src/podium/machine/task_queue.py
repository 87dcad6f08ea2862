"""Which tasks of a run are under way, and which wait until fewer are."""

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
        """It is the next one again."""
        self._waiting.appendleft(task)

    def take_next(self) -> RunTask | None:
        """The next task that waits, if there is room for it."""
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
