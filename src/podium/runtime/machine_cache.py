"""The state of the machine at an earlier record: a log with new records is folded again from there, not from
its start.

The same state is saved in the store as a checkpoint, together with the state of the views at that record.
"""

from typing import Final

from podium.machine import Machine
from podium.machine.program import WorkflowProgram
from podium.plan.plan import Plan
from podium.runtime.checkpoints import Saved
from podium.runtime.task_slots import TaskSlots
from podium.runtime.view_feed import ViewFeed
from podium.runtime.world import World

# A checkpoint is made after this many events, plus one event for each of this many bytes of its size.
CHECKPOINT_EVERY: Final = 5000
_BYTES_PER_EVENT: Final = 512
# A driver that leaves an open run saves one if a resume would have to read more events than this.
_LONG_TAIL: Final = 1000


class MachineCache:
    def __init__(self, plan: Plan, world: World, slots: TaskSlots, feed: ViewFeed) -> None:
        self._plan = plan
        self._world = world
        self._slots = slots
        self._feed = feed
        self._kept: bytes | None = None
        self._seq = 0
        self._next = CHECKPOINT_EVERY

    def start_from(self, saved: Saved) -> None:
        self._kept, self._seq = saved.machine, saved.run_seq
        self._next = saved.run_seq + CHECKPOINT_EVERY

    def newest(self, program: WorkflowProgram) -> Machine:
        if self._kept is None:
            return Machine(self._plan, program)
        return Machine.restore(self._plan, self._kept, program=program)

    def keep_if_due(self, machine: Machine) -> None:
        """Requires that everything that was folded is in the log."""
        if machine.last_seq >= self._next and not machine.terminal:
            self._keep(machine)

    def keep_at_leave(self, machine: Machine) -> None:
        if machine.last_seq > self._seq + _LONG_TAIL:
            self._keep(machine)

    def _keep(self, machine: Machine) -> None:
        self._kept, self._seq = machine.checkpoint(), machine.last_seq
        size = len(self._kept)
        if self._world.checkpoints is not None:
            self._feed.flush()
            attempts = self._slots.engine_attempts
            size = max(size, self._world.checkpoints.save(self._seq, self._kept, attempts))
        self._next = self._seq + max(CHECKPOINT_EVERY, size // _BYTES_PER_EVENT)
