"""The workers of pools: their reports while they serve, who may see them, and draining one."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

import podium
from podium.errors import PodiumError, StoreVersion
from podium.log.times import timestamp
from podium.log.workers import Worker, WorkerReport
from podium.operations.parts import Parts

if TYPE_CHECKING:
    # Imported by workers, but not by commands that only show them.
    from podium.engines.run_host import RunHost
    from podium.operations.hooks.posting import WebhookPoster
    from podium.operations.schedules.ticking import Ticker

HEARTBEAT_SECONDS: Final = 2.0
# A worker without a report for this long is gone, or cannot reach the store.
LOST_SECONDS: Final = 15.0
LOST: Final = "lost"


class WorkerNotFound(PodiumError):
    code = "WORKER_NOT_FOUND"


class WorkerView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A worker, as shown to users with a role in one of its tenants."""

    id: str
    host: str
    pid: int
    version: str
    pools: tuple[str, ...]
    slots: int
    running: int
    started_at: str
    seen_at: str
    # serving, draining or lost.
    state: str


async def serve_pools(
    parts: Parts,
    host: "RunHost",
    tenants: Sequence[str],
    stop: asyncio.Event,
    *,
    ticker: "Ticker",
    poster: "WebhookPoster",
    drain: float,
    hurry: asyncio.Event,
    on_ready: Callable[[str], None],
) -> None:
    """Drive runs of these tenants, start those of their schedules, and deliver to their webhooks, until
    `stop` is set or an operator drains the worker.

    `on_ready` is called with the id of the worker. Raises what `Parts.require` raises, and `StoreVersion` when a
    newer Podium has migrated the store in the meantime and this one may no longer write.
    """
    for tenant in tenants:
        await parts.require("worker.serve", tenant)
    reporting = _Reporting(parts, host, tenants)
    await reporting.report()
    beats = [asyncio.create_task(one(stop)) for one in (reporting.keep_reporting, reporting.say_draining)]
    beside = [asyncio.create_task(one.serve(stop)) for one in (ticker, poster)]
    for one in beside:
        one.add_done_callback(lambda _: stop.set())  # a defect ends the worker
    try:
        await host.serve(
            stop,
            drain=drain,
            hurry=hurry,
            starts_steps=False,
            on_ready=lambda: on_ready(worker_id_of(host.owner)),
        )
    finally:
        stop.set()
        await asyncio.gather(*beside)
        for beat in beats:
            beat.cancel()
        await asyncio.gather(*beats, return_exceptions=True)
        with contextlib.suppress(PodiumError):
            await parts.store.remove_worker(worker_id_of(host.owner))
    if reporting.refusal is not None:
        raise reporting.refusal


def worker_id_of(owner: str) -> str:
    """The end of the owner name with which a worker holds leases."""
    return owner.rpartition(":")[2]


class _Reporting:
    def __init__(self, parts: Parts, host: "RunHost", tenants: Sequence[str]) -> None:
        self._parts = parts
        self._host = host
        self._tenants = tuple(tenants)
        self._started_at = timestamp(parts.clock.now())
        # The store was migrated, and refuses every write of this process from now on.
        self.refusal: StoreVersion | None = None

    async def report(self) -> bool:
        return await self._parts.store.report_worker(
            WorkerReport(
                worker_id=worker_id_of(self._host.owner),
                host=socket.gethostname(),
                pid=os.getpid(),
                version=podium.__version__,
                pools=self._host.pools,
                tenants=self._tenants,
                slots=self._host.slots,
                running=self._host.running,
                started_at=self._started_at,
            )
        )

    async def keep_reporting(self, stop: asyncio.Event) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            try:
                if await self.report():
                    stop.set()
            except StoreVersion as refusal:
                self.refusal = refusal
                stop.set()
                return
            except PodiumError:
                pass  # Without a store the leases limit how long the worker may continue.

    async def say_draining(self, stop: asyncio.Event) -> None:
        """Also when a signal has stopped the worker: its last steps may take long."""
        await stop.wait()
        while True:
            with contextlib.suppress(PodiumError):
                await self._parts.store.drain_worker(worker_id_of(self._host.owner))
                return
            await asyncio.sleep(HEARTBEAT_SECONDS)


async def list_workers(parts: Parts, tenant_id: str) -> list[WorkerView]:
    """The workers that serve the tenant."""
    await parts.require("fleet.view", tenant_id)
    return [_view(one) for one in await parts.store.workers() if _serves(one, tenant_id)]


async def drain_worker(parts: Parts, tenant_id: str, worker_id: str) -> WorkerView:
    """It claims nothing more, lets running steps end within its drain time, and stops. Raises
    `WorkerNotFound`, also for one that serves other tenants. It affects every tenant that the worker serves,
    so it has to be allowed in each.
    """
    await parts.require("worker.drain", tenant_id, records=False)
    found = [one for one in await parts.store.workers() if one.report.worker_id == worker_id]
    if not found or not _serves(found[0], tenant_id):
        raise not_found(worker_id)
    for tenant in found[0].report.tenants or (tenant_id,):
        await parts.require("worker.drain", tenant)
    if not await parts.store.drain_worker(worker_id):
        raise not_found(worker_id)
    return _view(msgspec.structs.replace(found[0], is_draining=True))


def not_found(worker_id: str) -> WorkerNotFound:
    return WorkerNotFound(f"worker {worker_id!r} not found; `podium workers list` lists all workers")


def _serves(worker: Worker, tenant_id: str) -> bool:
    return worker.report.tenants is None or tenant_id in worker.report.tenants


def state_of(worker: Worker) -> str:
    """serving, draining or lost."""
    if worker.seen_seconds_ago > LOST_SECONDS:
        return LOST
    return "draining" if worker.is_draining else "serving"


def _view(worker: Worker) -> WorkerView:
    report = worker.report
    return WorkerView(
        id=report.worker_id,
        host=report.host,
        pid=report.pid,
        version=report.version,
        pools=report.pools,
        slots=report.slots,
        running=report.running,
        started_at=report.started_at,
        seen_at=worker.seen_at,
        state=state_of(worker),
    )
