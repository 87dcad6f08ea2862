"""Workers as a store knows them: what each reports about itself, and what waits for them."""

import msgspec

from podium.log.runs import Run
from podium.log.times import Timestamp


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a worker writes with every heartbeat."""

    # The same id as in its leases.
    worker_id: str
    host: str
    pid: int
    version: str
    pools: tuple[str, ...]
    # None: all tenants.
    tenants: tuple[str, ...] | None
    slots: int
    running: int
    started_at: Timestamp


class Worker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    report: WorkerReport
    # The last heartbeat and its age, by the clock of the store.
    seen_at: Timestamp
    seen_seconds_ago: float
    is_draining: bool


class QueuedRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of a pool that waits to be started. `position` counts from 1 within its tenant and pool."""

    run: Run
    position: int


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The open runs of a tenant in one pool."""

    pool: str
    # Those that start as soon as a slot is free, and those whose start time has not come.
    waiting: int
    delayed: int
    # Those that need an approval before they start.
    unapproved: int
    # Started and held by a worker; parked; and those that no worker holds although they could continue.
    running: int
    parked: int
    left: int
    # When the run that waits longest was created.
    oldest_at: Timestamp | None
