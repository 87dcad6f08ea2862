"""The run host: drives many runs of a pool in one process, without a thread, a polling loop or a directory
per run.

    claims    up to `slots` runs: queued ones, those of a host that is gone, and parked ones whose time has come
    leases    of all runs, renewed with one statement; a run whose lease is lost stops writing
    signals   one query to the store for all runs, ten times a second

A run that only waits is parked: it leaves its slot, and the store returns it again when it is due or receives
a signal. So a host holds only runs that make progress, and keeps nothing of the others.
"""

import asyncio
import contextlib
import ctypes
import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from msgspec.structs import replace

from podium.engines.delivering import Delivering
from podium.engines.host_logs import HostLogs
from podium.engines.hosted_plans import HostedPlans
from podium.engines.parts import LocalParts
from podium.engines.pool_creation import PoolCreation
from podium.engines.pool_run import STOPPED, PoolRun
from podium.errors import PodiumError, StaleFence
from podium.log.ids import RunId, check_id
from podium.log.runs import Run
from podium.ports.engine import RunRequest
from podium.ports.log_fields import add_log_fields
from podium.ports.store import Claimed, CreatedRun
from podium.runtime import holders
from podium.runtime.unforeseen import describe_without_values

SLOTS: Final = 256
_LOOK_SECONDS: Final = 0.1
# A run that asks a person, or waits for a time, often does so a moment after its start. Then it is parked at its first
# look, and at most so many runs wait for theirs: a host that gets ten thousand such runs needs the memory of a few.
_FIRST_LOOK_SECONDS: Final = 0.02
_MAX_NEW: Final = 16
_RENEW_SECONDS: Final = 10.0
# A run that ends frees its slot for another; several that end at about the same time are replaced together.
_CLAIM_PAUSE: Final = 0.01
_MAX_CLAIM_PAUSE: Final = 0.5
# Maximum share of its time that a host spends looking for runs while there are none.
_CLAIM_SHARE: Final = 20
# A query that was slow once, because another process held the lock, says little about the next one.
_LONGEST_PAUSE: Final = 5.0
# A host without a run for this long is idle. The short pause between two runs does not count.
_IDLE_SECONDS: Final = 2.0
# Number of allocated objects that triggers a garbage collection.
_COLLECT_AFTER: Final = 20_000
_TROUBLE_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class HostView:
    """Shows what a host does. The default does nothing."""

    def started(self, run_id: RunId) -> None: ...

    def ended(self, run_id: RunId, event_type: str) -> None: ...

    def trouble(self, reason: str) -> None: ...


def _nothing() -> None:
    pass


class RunHost:
    """`slots`: how many runs it drives concurrently, at most.

    `pool`: the pool of the runs that it creates; it also drives those of `other_pools`, in turn. `tenants`:
    whose runs it drives; None: those of all tenants.
    """

    def __init__(
        self,
        parts: LocalParts,
        *,
        pool: str,
        other_pools: Sequence[str] = (),
        tenants: frozenset[str] | None = None,
        slots: int = SLOTS,
        view: HostView | None = None,
    ) -> None:
        self._pools = deque(dict.fromkeys((pool, *other_pools)))
        for name in self._pools:
            check_id("pool", name)
        self._tenants = tenants
        self._delivering = Delivering(parts, tenants)
        parts = replace(parts, observers=(*parts.observers, self._delivering.observe))
        self._parts = parts
        self._store = parts.store
        self.pool = pool
        self.pools = tuple(self._pools)
        self.slots = slots
        self._view = view or HostView()
        self.owner = holders.new_owner()
        # By tenant, what its runs get.
        self._tenant_parts: dict[str, tuple[LocalParts, HostedPlans]] = {}
        self._creation = PoolCreation(parts)
        self._logs = HostLogs(
            lambda error: self._view.trouble(
                f"logs of steps are on this host only: {describe_without_values(error)}"
            )
        )
        self._runs: dict[RunId, PoolRun] = {}
        self._tasks: dict[RunId, asyncio.Task[None]] = {}
        # Those that were started since the last look.
        self._new: set[RunId] = set()
        # Set when there may be something to claim.
        self._claimable = asyncio.Event()
        self._claiming: asyncio.Future[list[Claimed]] | None = None
        # By the last query, also if it did not get to its end.
        self._claimed: list[Claimed] = []
        self._is_leaving = False
        self._is_troubled = False
        # When the last run ended since the memory was last freed, by the clock of the loop.
        self._last_end: float | None = None

    @property
    def running(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more runs it can drive now."""
        return self.slots - len(self._tasks)

    @property
    def _claims(self) -> int:
        """How many runs it takes with the next claim: some together, because each claim is a commit."""
        room = _MAX_NEW - len(self._new)
        return min(self.free, room) if room >= _MAX_NEW // 2 else 0

    async def create(self, request: RunRequest) -> CreatedRun:
        """Create a run of this pool; durable when it returns, and driven by this host or another one of the
        pool.

        `duplicate` if the request id is known with the same plan and inputs. Raises `RunRequestConflict` if
        it is known with others.
        """
        created = await self._creation.create(_in_pool(request, self.pool))
        if not created.duplicate:
            self._claimable.set()
        return created

    async def serve(
        self,
        stop: asyncio.Event,
        *,
        drain: float,
        hurry: asyncio.Event | None = None,
        starts_steps: bool = True,
        on_ready: Callable[[], None] = _nothing,
    ) -> None:
        """Runs until `stop` is set; then runs have `drain` seconds, and the rest is left to other hosts.

        `hurry` ends that time. `starts_steps`: whether runs go on in that time; otherwise each is left as soon as its
        running steps have ended.
        """
        self._is_leaving = False
        loops = [asyncio.create_task(one) for one in self._loops()]
        on_ready()
        restore_collection = _collect_less_often()
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({stopping, *loops}, return_when=asyncio.FIRST_COMPLETED)
            for ended in done - {stopping}:
                ended.result()  # a defect: no loop ends by itself
            loops[0].cancel()
            await self._give_back_claims()
            await self._drain(drain, hurry, starts_steps=starts_steps)
        finally:
            for task in (stopping, *loops):
                task.cancel()
            await asyncio.gather(stopping, *loops, return_exceptions=True)
            await self._leave_all()
            with contextlib.suppress(PodiumError):
                await self._delivering.finish()
            restore_collection()

    def _loops(self) -> list[Coroutine[Any, Any, None]]:
        """The first one is the one that claims."""
        loops = [self._claim_runs(), self._renew_leases(), self._follow_logs()]
        if self._parts.bucket is not None:
            loops.append(self._logs.keep_shipping(lambda: [run.logs for run in self._runs.values()]))
        return loops

    async def _drain(self, seconds: float, hurry: asyncio.Event | None, *, starts_steps: bool) -> None:
        driven = asyncio.ensure_future(self._end_runs(starts_steps=starts_steps))
        hurried = asyncio.ensure_future((hurry or asyncio.Event()).wait())
        await asyncio.wait({driven, hurried}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in (driven, hurried):
            one.cancel()

    async def _end_runs(self, *, starts_steps: bool) -> None:
        while self._tasks:
            if not starts_steps:
                for run in self._runs.values():
                    run.drain()
            await asyncio.wait(self._tasks.values(), timeout=_LOOK_SECONDS)

    async def _leave_all(self) -> None:
        """Release unfinished runs immediately, so that another host takes them."""
        self._is_leaving = True
        await self._give_back_claims()
        while self._tasks:
            await self._leave_tasks()

    async def _give_back_claims(self) -> None:
        """Release the claims of a query that was running when the host was stopped."""
        claiming, self._claiming = self._claiming, None
        if claiming is None:
            return
        await asyncio.wait({claiming}, timeout=_TROUBLE_SECONDS)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        for one in self._claimed:
            with contextlib.suppress(PodiumError):
                await self._store.release(one.lease)

    async def _leave_tasks(self) -> None:
        for run in self._runs.values():
            run.leave(STOPPED)
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=_TROUBLE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- claims -----------------------------------------------------------------------------------

    async def _claim_runs(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._claimable.clear()
            asked, before = self._claims, loop.time()
            if asked <= 0:
                await self._claimable.wait()
                continue
            until = before + self._parts.lease.total_seconds()
            try:
                self._claiming = asyncio.ensure_future(self._claim(asked))
                claimed = await asyncio.shield(self._claiming)
            except PodiumError as error:
                self._trouble(error)
                await asyncio.sleep(_TROUBLE_SECONDS)
                continue
            self._claiming = None
            self._is_troubled = False
            took = loop.time() - before
            for one in claimed:
                self._start(one, until)
            if not claimed:
                await self._free_memory()
            if len(claimed) < asked:
                await self._wait_for_runs(took, found=bool(claimed))

    async def _free_memory(self) -> None:
        """Once when the host becomes idle: otherwise the remains of many runs stay until there are more."""
        now, last_end = asyncio.get_running_loop().time(), self._last_end
        if last_end is not None and not self._tasks and now - last_end >= _IDLE_SECONDS:
            self._last_end = None
            with contextlib.suppress(PodiumError):
                await self._store.free_memory()
            gc.collect()
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)

    async def _claim(self, limit: int) -> list[Claimed]:
        """Claim from its pools, starting with a different one each time."""
        claimed: list[Claimed] = []
        self._claimed = claimed
        for pool in tuple(self._pools):
            if len(claimed) == limit:
                break
            try:
                claimed += await self._store.claim_of_pool(
                    pool,
                    owner=self.owner,
                    ttl=self._parts.lease,
                    limit=limit - len(claimed),
                    tenants=self._tenants,
                )
            except PodiumError:
                if not claimed:
                    raise
                break
        self._pools.rotate(-1)
        return claimed

    async def _wait_for_runs(self, took: float, *, found: bool) -> None:
        """Wait longer if the query takes long."""
        await asyncio.sleep(max(_CLAIM_PAUSE, took if found else 0.0))
        pause = min(max(_MAX_CLAIM_PAUSE, _CLAIM_SHARE * took), _LONGEST_PAUSE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._claimable.wait()

    def _start(self, claimed: Claimed, leased_until: float) -> None:
        run = PoolRun(*self._parts_of(claimed.run), claimed, leased_until)
        if run.run_id in self._runs:
            # Claimed again although it is driven here: its lease had lapsed, and the driver has not noticed
            # yet.
            self._runs[run.run_id].revoke(_replaced(run.run_id))
            self._tasks[run.run_id].add_done_callback(lambda _: self._start(claimed, leased_until))
            return
        if self._is_leaving:
            run.leave(STOPPED)
        self._runs[run.run_id] = run
        self._new.add(run.run_id)
        self._tasks[run.run_id] = asyncio.create_task(self._drive(run))
        self._view.started(run.run_id)

    def _parts_of(self, run: Run) -> tuple[LocalParts, HostedPlans]:
        tenant_id = run.identity.tenant_id
        if tenant_id not in self._tenant_parts:
            parts = self._parts.for_tenant(tenant_id)
            self._tenant_parts[tenant_id] = parts, HostedPlans(parts)
        return self._tenant_parts[tenant_id]

    async def _drive(self, run: PoolRun) -> None:
        add_log_fields(run=run.run_id, tenant=run.tenant_id)
        try:
            ended = await run.drive()
            await self._logs.finish(run.logs)
            if ended is not None:
                self._view.ended(run.run_id, ended)
        except Exception as error:
            reason = describe_without_values(error)
            _LOG.error("run %s was left by its host: %s", run.run_id, reason)
            self._view.trouble(f"run {run.run_id!r}: {reason}")
        finally:
            del self._runs[run.run_id], self._tasks[run.run_id]
            self._new.discard(run.run_id)
            self._last_end = asyncio.get_running_loop().time()
            self._claimable.set()

    # --- leases and signals -----------------------------------------------------------------------

    async def _renew_leases(self) -> None:
        pause = min(_RENEW_SECONDS, self._parts.lease.total_seconds() / 3)
        while True:
            await asyncio.sleep(pause)
            try:
                await self._renew_all()
            except PodiumError as error:
                # The leases themselves limit how long that may last.
                self._trouble(error)

    async def _renew_all(self) -> None:
        # Not in the loop above, whose locals would keep these runs alive during its pause, even after they
        # end.
        runs, ttl = dict(self._runs), self._parts.lease
        if not runs:
            return
        until = asyncio.get_running_loop().time() + ttl.total_seconds()
        renewed = await self._store.renew_all([run.keeper.lease for run in runs.values()], ttl=ttl)
        by_run = {lease.run_id: lease for lease in renewed}
        for run_id, run in runs.items():
            if self._runs.get(run_id) is run:
                if run_id not in by_run:
                    self._lapsed()
                await run.renewed(by_run.get(run_id), until)

    def _lapsed(self) -> None:
        if self._parts.telemetry.is_on:
            from podium.ports.metrics import LEASE_LAPSES

            self._parts.telemetry.count(LEASE_LAPSES)

    async def _follow_logs(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + _LOOK_SECONDS
        while True:
            is_first_look = bool(self._new) and loop.time() + _FIRST_LOOK_SECONDS < due
            await asyncio.sleep(_FIRST_LOOK_SECONDS if is_first_look else max(0.0, due - loop.time()))
            try:
                if not is_first_look:
                    due = loop.time() + _LOOK_SECONDS
                    await self._look_at_logs()
                await self._park_idle()
            except PodiumError as error:
                self._trouble(error)

    async def _look_at_logs(self) -> None:
        heads = {run_id: head for run_id, run in self._runs.items() if (head := run.head) is not None}
        if not heads:
            return
        for run_id in await self._store.moved(heads):
            if (run := self._runs.get(run_id)) is not None and run.driver is not None:
                run.driver.nudge()

    async def _park_idle(self) -> None:
        """All at once, so that the store commits them together."""
        seen = set(self._new)
        idle = [run for run in self._runs.values() if run.is_idle]
        parked = await asyncio.gather(*(run.park_if_idle() for run in idle), return_exceptions=True)
        was_full = self._claims <= 0
        self._new -= seen
        if was_full:
            self._claimable.set()
        for one in parked:
            if isinstance(one, BaseException):
                raise one

    def _trouble(self, error: PodiumError) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            self._view.trouble(describe_without_values(error))


def _collect_less_often() -> Callable[[], None]:
    """Runs are created and deleted by the hundred: frequent collections of all their objects take a tenth of
    the time.

    Objects from before are excluded from collections. Returns a function that restores the previous settings.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECT_AFTER), before[1], before[2])
    gc.freeze()

    def restore() -> None:
        gc.unfreeze()
        gc.set_threshold(*before)

    return restore


def _in_pool(request: RunRequest, pool: str) -> RunRequest:
    return request if request.pool == pool else replace(request, pool=pool)


def _replaced(run_id: str) -> StaleFence:
    return StaleFence(f"run {run_id!r} was claimed again; nothing more is written under its old lease")
