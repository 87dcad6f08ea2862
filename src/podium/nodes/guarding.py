"""Whether an action may be executed: its lease is valid, and it was not executed before.

The epoch of a step counts how often it has been executed. An action carries the epoch on which its order was
based; success increments it, in the log together with the end of the step. A later order of the same step is
based on the log, so that its epoch is right whatever this process remembers.
"""

from typing import Protocol

from podium.nodes.errors import EpochConflict, LeaseExpired

# The attempt of the step, and its engine attempt.
Order = tuple[int, int]


class HasEpoch(Protocol):
    """An action, or the call that executes it."""

    @property
    def epoch(self) -> int: ...


class ActionGuard:
    """Guards the steps of one run in one process."""

    def __init__(self) -> None:
        # By step: the newest order that was executed, and the epoch since then.
        self._done: dict[str, tuple[Order, int]] = {}

    def check(self, action: HasEpoch, step: str, order: Order, *, lease_holds: bool) -> None:
        """Raises `LeaseExpired`, `EpochConflict`."""
        if not lease_holds:
            raise LeaseExpired
        done = self._done.get(step)
        if done is not None and order <= done[0] and action.epoch < done[1]:
            raise EpochConflict

    def carried_out(self, action: HasEpoch, step: str, order: Order) -> int:
        """The epoch after the action has succeeded."""
        self._done[step] = (order, action.epoch + 1)
        return action.epoch + 1
