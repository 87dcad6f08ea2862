"""Which tasks run, which wait for a slot, and which engine attempt of a task is under way."""

import asyncio
import math

from podium.log.events import EventRecord, EventType
from podium.log.transitions import TASK_ENDS
from podium.machine.task_queue import TaskKey, TaskQueue


class TaskSlots(TaskQueue):
    """Of a driver: it may start tasks only while its run certainly has its own slot."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        # The run has lost its own slot: no task starts.
        self.suspended = False
        # By the clock of the loop: until then the run certainly has its slot.
        self.leased_until = math.inf
        self.engine_attempts: dict[TaskKey, int] = {}

    @property
    def is_lapsed(self) -> bool:
        return asyncio.get_running_loop().time() > self.leased_until

    def is_leased(self) -> bool:
        """Whether the run certainly is this driver's."""
        return not self.is_lapsed

    def has_room(self) -> bool:
        if self.is_lapsed:
            # This process was frozen: another run may work in the slot. The lease keeper finds out.
            self.suspended = True
        return super().has_room() and not self.suspended

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
