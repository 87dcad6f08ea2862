"""Leases: who may write about a run or an attempt, and for how long.

A lease is claimed by an owner for a time and renewed while the work continues; one of an owner that is not a process,
such as the execution of a workflow on another engine, never lapses. Each change of owner raises its *generation*; an
append names lease and generation (its *fence*), so that an owner that was thought dead and comes back cannot write over
the one that took over. Who needs which lease for which event is a table here.
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
    # When it lapses by the clock of the store, for people; stores decide by a clock of their own. None: never.
    expires_at: Timestamp | None


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease as others see it. Once it has lapsed it can be taken; its holder keeps it until then."""

    lease: Lease
    is_live: bool


class WakeUp(msgspec.Struct, frozen=True, kw_only=True):
    """A timer of a run: at `due` somebody has to look at it. Whoever records TimerFired drops it."""

    run_id: RunId
    key: str
    due: Timestamp


class AttemptClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A worker wants to carry out an attempt."""

    step_id: str
    logical_attempt_id: int
    owner: str
    ttl: timedelta

    @property
    def name(self) -> str:
        return attempt_name(self.step_id, self.logical_attempt_id)


# The lease of a run that waits for a slot: its place in line. No attempt has such a name.
IN_LINE: Final = "|line"


def attempt_name(step_id: str, logical_attempt_id: int) -> str:
    """What the lease of an attempt is called."""
    return f"{step_id}|{logical_attempt_id}"


# May be appended by anybody: they record what somebody outside decided, not what the run decided.
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
