"""The driver of a run, according to its lease, on every store: the lease lapses if its process does not renew
it.

A process of this host that no longer exists counts as gone immediately; any other when its lease has lapsed.
The lease of another engine's workflow never lapses: that engine finds a worker for the run.
"""

import socket
from dataclasses import dataclass

import msgspec

from podium.log.ids import RunId
from podium.log.leases import DRIVER_LEASE, HeldLease
from podium.log.runs import Run
from podium.log.times import Timestamp, moment, timestamp
from podium.log.transitions import IN_PROGRESS, TERMINAL
from podium.ports.store import Store
from podium.runtime import holders
from podium.runtime.other_engines import is_elsewhere, owner_of
from podium.runtime.slots import describe_line


@dataclass(frozen=True, slots=True)
class RunDriver:
    """The driver of a run, or the last process that drove it."""

    run_id: RunId
    owner: str
    is_alive: bool
    # Until when it is known to have driven the run, if it no longer does.
    until: Timestamp
    # What it waits for, if the process cannot drive the run before it has a slot.
    in_line: str = ""

    @property
    def title(self) -> str:
        """`process 123 on build-7`; empty if it released the run."""
        return holders.describe(self.owner) if self.owner else ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the processes that it left running are unreachable from here."""
        holder = holders.holder_of(self.owner)
        return holder is not None and holder.host != socket.gethostname()

    def text(self) -> str:
        """The message about a run without a live driver, with what to do about it."""
        return (
            f"no process has driven this run since {self.until[:10]} {self.until[11:16]} UTC; "
            f"`podium resume {self.run_id}`"
        )


async def open_driver(store: Store, run: Run) -> RunDriver | None:
    """The process that waits with the run for a slot; else the one that drives it, or the last one that did."""
    waiting = await _in_line(store, run)
    if waiting is not None or run.status not in IN_PROGRESS:
        return waiting
    return await driver_of(store, run)


async def undriven(store: Store, run: Run, *, also_queued: bool = False) -> RunDriver | None:
    """The last driver of a run that has started, has not ended, and has no live driver."""
    # A process in the queue is alive even if its lease has lapsed because the machine is busy.
    found = await open_driver(store, run)
    if found is None and also_queued:
        found = await driver_of(store, run)
    return found if found is not None and not found.is_alive else None


async def driver_of(store: Store, run: Run) -> RunDriver:
    """The process that drives a run in any state, or the last one that did."""
    return _driver(run, await store.held_lease(run.identity.run_id))


async def _in_line(store: Store, run: Run) -> RunDriver | None:
    """A live process that wants to drive the run and waits for a slot; the run may have started before."""
    if run.concurrency_key is None or run.status in TERMINAL:
        return None
    run_id = run.identity.run_id
    line = await store.slot_line(run_id)
    living = msgspec.structs.replace(
        line, waiting=tuple(one for one in line.waiting if not holders.is_gone(one.owner))
    )
    lease = next((one for one in living.waiting if one.run_id == run_id), None)
    if lease is None:
        return None
    text = describe_line(living, run_id, run.concurrency_key)
    until = lease.expires_at or run.updated_at
    return RunDriver(run_id, lease.owner, is_alive=True, until=until, in_line=text)


def _driver(run: Run, holding: HeldLease | None) -> RunDriver:
    run_id = run.identity.run_id
    if is_elsewhere(run):
        # Not a process: its engine finds a worker that continues it.
        return RunDriver(run_id, owner_of(run), is_alive=True, until=run.updated_at)
    if holding is None:
        return RunDriver(run_id, "", is_alive=False, until=run.updated_at)
    owner, expires_at = holding.lease.owner, holding.lease.expires_at
    if expires_at is None:
        return RunDriver(run_id, owner, is_alive=True, until=run.updated_at)
    if not holding.is_live:
        return RunDriver(run_id, owner, is_alive=False, until=expires_at)
    if holders.is_gone(owner):
        # It renewed its lease until it ended: the last renewal was this long before the lease lapses.
        renewed = timestamp(moment(expires_at) - DRIVER_LEASE)
        return RunDriver(run_id, owner, is_alive=False, until=max(run.updated_at, renewed))
    return RunDriver(run_id, owner, is_alive=True, until=expires_at)
