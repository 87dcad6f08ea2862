"""Which tasks run, which wait for a slot, and which engine attempt of a task is in progress."""

import asyncio
import math

from podium.log.events import EventRecord, EventType
from podium.log.transitions import TASK_ENDS
from podium.machine.task_queue import TaskKey, TaskQueue


class TaskSlots(TaskQueue):
    """The slots of a driver: it may start tasks only while its run is certain to have its own slot."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        # The run has lost its own slot: no task starts.
        self.suspended = False
        # Its host is being stopped: tasks that run may end, and no other starts.
        self.draining = False
        # By the clock of the loop: until then the run is certain to have its slot.
        self.leased_until = math.inf
        self.engine_attempts: dict[TaskKey, int] = {}

    @property
    def is_lapsed(self) -> bool:
        return asyncio.get_running_loop().time() > self.leased_until

    def is_leased(self) -> bool:
        """Whether the run is certain to be this driver's."""
        return not self.is_lapsed

    def has_room(self) -> bool:
        if self.is_lapsed:
            # This process was frozen: another run may use the slot. The lease keeper finds out.
            self.suspended = True
        return super().has_room() and not (self.suspended or self.draining)

    def engine_attempt(self, key: TaskKey) -> int:
        return self.engine_attempts.get(key, 1)

    def start_over(self, key: TaskKey) -> None:
        """The process that executed it is gone: the next start is its next engine attempt."""
        self.engine_attempts[key] = self.engine_attempt(key) + 1

    def count(self, record: EventRecord) -> None:
        """Record which engine attempt of a task is in progress; it is removed with its end."""
        if record.step_id is None:
            return
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type == EventType.STEP_STARTED:
            # Numbers that this process has assigned take precedence: the log has only the first of them.
            self.engine_attempts.setdefault(key, record.engine_attempt_id)
        elif record.event_type in TASK_ENDS:
            self.engine_attempts.pop(key, None)
