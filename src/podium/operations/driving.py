"""Which process drives a run. The lease says so, on every store: it lapses when its process does not renew it.

A process of this host that is not there any more counts as gone at once; any other when its lease has lapsed.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from podium.log.ids import RunId
from podium.log.leases import DRIVER_LEASE, HeldLease
from podium.log.runs import Run
from podium.log.times import Timestamp, moment, timestamp
from podium.log.transitions import RunStatus
from podium.ports.store import Store
from podium.runtime import holders


@dataclass(frozen=True, slots=True)
class RunDriver:
    """The process that drives a run, or the last one that did."""

    run_id: RunId
    owner: str
    is_alive: bool
    # Until when it is known to have driven the run, if it does not any more.
    until: Timestamp

    @property
    def title(self) -> str:
        """`process 123 on build-7`; empty if it gave the run up."""
        return holders.describe(self.owner) if self.owner else ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether what it left running cannot be reached from here."""
        holder = holders.holder_of(self.owner)
        return holder is not None and holder.host != socket.gethostname()

    def text(self) -> str:
        """What is said about a run without a living driver, with what to do about it."""
        return (
            f"no process has driven this run since {self.until[:10]} {self.until[11:16]} UTC; "
            f"`podium resume {self.run_id}`"
        )


async def drivers_of(store: Store, runs: Sequence[Run]) -> dict[RunId, RunDriver]:
    """Of those that have started and not ended."""
    started = [run for run in runs if run.status in (RunStatus.RUNNING, RunStatus.PAUSED)]
    return {run.identity.run_id: _driver(run, await store.held_lease(run.identity.run_id)) for run in started}


async def undriven(store: Store, run: Run, *, also_queued: bool = False) -> RunDriver | None:
    """The last driver of a run that has started, has not ended, and that no living process drives."""
    if run.status not in (RunStatus.RUNNING, RunStatus.PAUSED) and not also_queued:
        return None
    found = await driver_of(store, run)
    return found if not found.is_alive else None


async def driver_of(store: Store, run: Run) -> RunDriver:
    """The process that drives a run in any state, or the last one that did."""
    return _driver(run, await store.held_lease(run.identity.run_id))


def _driver(run: Run, holding: HeldLease | None) -> RunDriver:
    run_id = run.identity.run_id
    if holding is None:
        return RunDriver(run_id, "", is_alive=False, until=run.updated_at)
    lease = holding.lease
    if not holding.is_live:
        return RunDriver(run_id, lease.owner, is_alive=False, until=lease.expires_at)
    if holders.is_gone(lease.owner):
        # It renewed its lease until it ended: the last time was this long before the lease lapses.
        renewed = timestamp(moment(lease.expires_at) - DRIVER_LEASE)
        return RunDriver(run_id, lease.owner, is_alive=False, until=max(run.updated_at, renewed))
    return RunDriver(run_id, lease.owner, is_alive=True, until=lease.expires_at)
