"""Leases: who may write about a run or an attempt, and for how long.

An owner claims a lease for a period and renews it while the work continues; the lease of an owner that is not
a process, such as the execution of a workflow on another engine, never expires. Each change of owner raises
the *generation*; an append names lease and generation (its *fence*), so that an owner that was presumed dead
and comes back cannot overwrite the work of its successor. A table in this module lists which lease each event
needs.
"""

from datetime import timedelta
from typing import Final

import msgspec

from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.times import Timestamp

# How long a driver's lease lasts unless it is renewed, by default.
DRIVER_LEASE: Final = timedelta(seconds=30)


class Fence(msgspec.Struct, frozen=True):
    """Proof of ownership: which lease, and which claim of it. An empty `attempt` is the run's own lease."""

    generation: int
    attempt: str = ""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    run_id: RunId
    owner: str
    fence: Fence
    # When it expires by the clock of the store, for display only; stores decide by a clock of their own.
    # None: never.
    expires_at: Timestamp | None


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease as other processes see it. Once it has expired it can be taken; its holder keeps it until then."""

    lease: Lease
    is_live: bool


class WakeUp(msgspec.Struct, frozen=True, kw_only=True):
    """A timer of a run: at `due` a driver has to check it. The driver that records TimerFired deletes it."""

    run_id: RunId
    key: str
    due: Timestamp


class AttemptClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's request to execute an attempt."""

    step_id: str
    logical_attempt_id: int
    owner: str
    ttl: timedelta

    @property
    def name(self) -> str:
        return attempt_name(self.step_id, self.logical_attempt_id)


# The lease of a run that waits for a slot: its place in the queue. No attempt can have this name.
IN_LINE: Final = "|line"


def attempt_name(step_id: str, logical_attempt_id: int) -> str:
    """The name of an attempt's lease."""
    return f"{step_id}|{logical_attempt_id}"


# Any process may append these: they record what was decided outside of the run, not what the run decided.
UNFENCED: Final = frozenset(
    {
        EventType.RUN_QUEUED,
        EventType.RUN_APPROVED,
        EventType.SIGNAL_ACCEPTED,
        EventType.SIGNAL_REJECTED,
        EventType.ALERT_RAISED,
    }
)


def may_write(event_type: str, step_id: str | None, logical_attempt_id: int, fence: Fence | None) -> bool:
    """Whether an event may be written under this fence, if the fence is the current one."""
    if event_type in UNFENCED:
        return True
    if fence is None:
        return False
    if not fence.attempt:
        return True
    return step_id is not None and fence.attempt == attempt_name(step_id, logical_attempt_id)
