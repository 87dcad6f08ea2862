"""The run host: drives many runs of a pool in one process, without a thread, a polling loop or a directory per run.

    claims    up to `slots` runs: queued ones, those of a host that is gone, and parked ones whose time has come
    leases    of all runs, renewed with one statement; who loses one stops writing
    signals   one question to the store for all runs, ten times a second

A run that only waits is parked: it leaves its slot, and the store hands it out again when it is due or is sent a
signal. So a host holds only what moves, and nothing of a run stays behind in it.
"""

import asyncio
import contextlib
import ctypes
import gc
import logging
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from podium.engines.hosted_plans import HostedPlans
from podium.engines.parts import LocalParts
from podium.engines.pool_creation import PoolCreation
from podium.engines.pool_run import PoolRun
from podium.errors import PodiumError, StaleFence
from podium.log.ids import RunId, check_id
from podium.ports.engine import RunRequest
from podium.ports.store import Claimed, CreatedRun
from podium.runtime import holders
from podium.text import without_credentials

SLOTS: Final = 256
_LOOK_SECONDS: Final = 0.1
_RENEW_SECONDS: Final = 10.0
# A run that ends makes room for another; several that end at about the same time are replaced together.
_CLAIM_PAUSE: Final = 0.01
_MAX_CLAIM_PAUSE: Final = 0.5
# How much of its time a host spends at most with looking for runs while there are none.
_CLAIM_SHARE: Final = 20
# Without a run for so long, a host is idle. Between two runs that follow each other there is no time to lose.
_IDLE_SECONDS: Final = 2.0
# Objects that were made and not freed, before the garbage collector looks at them.
_COLLECT_AFTER: Final = 20_000
_TROUBLE_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class HostView:
    """Shows what a host does. The default shows nothing."""

    def started(self, run_id: RunId) -> None: ...

    def ended(self, run_id: RunId, event_type: str) -> None: ...

    def trouble(self, reason: str) -> None: ...


def _nothing() -> None:
    pass


class RunHost:
    """`slots`: how many runs it drives at the same time, at most.

    `pool`: that of the runs that it creates; it also drives those of `other_pools`, in turn. `tenants`: whose runs it
    drives; None: those of all.
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
        self._parts = parts
        self._store = parts.store
        self.pool = pool
        self.pools = tuple(self._pools)
        self.slots = slots
        self._view = view or HostView()
        self.owner = holders.new_owner()
        self._plans = HostedPlans(parts)
        self._creation = PoolCreation(parts)
        self._runs: dict[RunId, PoolRun] = {}
        self._tasks: dict[RunId, asyncio.Task[None]] = {}
        # There may be something to claim.
        self._claimable = asyncio.Event()
        self._claiming: asyncio.Future[list[Claimed]] | None = None
        self._is_leaving = False
        self._is_troubled = False
        # When a run ended that its memory was not freed after yet, by the clock of the loop.
        self._last_end: float | None = None

    @property
    def running(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more runs it can drive now."""
        return self.slots - len(self._tasks)

    async def create(self, request: RunRequest) -> CreatedRun:
        """Make a run of this pool; durable when it returns, and driven by this host or another one of the pool.

        `duplicate` if the request id is known with the same plan and inputs. Raises `RunRequestConflict` if it is known
        with others.
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
        on_ready: Callable[[], None] = _nothing,
    ) -> None:
        """Until `stop` is set; then runs have `drain` seconds, and the rest is left to other hosts.

        `hurry` ends that time.
        """
        self._is_leaving = False
        loops = [
            asyncio.create_task(one)
            for one in (self._claim_runs(), self._renew_leases(), self._follow_logs())
        ]
        on_ready()
        restore_collection = _collect_less_often()
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({stopping, *loops}, return_when=asyncio.FIRST_COMPLETED)
            for ended in done - {stopping}:
                ended.result()  # a defect: no loop ends by itself
            loops[0].cancel()
            await self._drain(drain, hurry)
        finally:
            for task in (stopping, *loops):
                task.cancel()
            await asyncio.gather(stopping, *loops, return_exceptions=True)
            await self._leave_all()
            restore_collection()

    async def _drain(self, seconds: float, hurry: asyncio.Event | None) -> None:
        if not self._tasks:
            return
        driven = asyncio.ensure_future(asyncio.wait(self._tasks.values()))
        hurried = asyncio.ensure_future((hurry or asyncio.Event()).wait())
        await asyncio.wait({driven, hurried}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in (driven, hurried):
            one.cancel()

    async def _leave_all(self) -> None:
        """Runs with work left are free immediately, so that another host takes them."""
        self._is_leaving = True
        await self._give_back_claims()
        while self._tasks:
            await self._leave_tasks()

    async def _give_back_claims(self) -> None:
        """Of a question to the store that was under way when the host was stopped."""
        claiming, self._claiming = self._claiming, None
        if claiming is None:
            return
        await asyncio.wait({claiming}, timeout=_TROUBLE_SECONDS)
        if not claiming.done():
            claiming.cancel()
        elif claiming.exception() is None:
            for one in claiming.result():
                with contextlib.suppress(PodiumError):
                    await self._store.release(one.lease)

    async def _leave_tasks(self) -> None:
        for run in self._runs.values():
            run.leave("the host was stopped")
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
            if self.free <= 0:
                await self._claimable.wait()
                continue
            asked, before = self.free, loop.time()
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
            for one in claimed:
                self._start(one, until)
            if not claimed:
                self._free_memory()
            if len(claimed) < asked:
                await self._wait_for_runs(loop.time() - before, found=bool(claimed))

    def _free_memory(self) -> None:
        """Once when it is idle: what many runs have left behind is otherwise not looked at before there are more."""
        now, last_end = asyncio.get_running_loop().time(), self._last_end
        if last_end is not None and not self._tasks and now - last_end >= _IDLE_SECONDS:
            self._last_end = None
            gc.collect()
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)

    async def _claim(self, limit: int) -> list[Claimed]:
        """From its pools, starting with another one each time."""
        claimed: list[Claimed] = []
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
        """Longer if looking takes long."""
        await asyncio.sleep(max(_CLAIM_PAUSE, took if found else 0.0))
        pause = max(_MAX_CLAIM_PAUSE, _CLAIM_SHARE * took)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._claimable.wait()

    def _start(self, claimed: Claimed, leased_until: float) -> None:
        run = PoolRun(self._parts, self._plans, claimed, leased_until)
        if run.run_id in self._runs:
            # Claimed again although it is driven here: its lease had lapsed, and the driver has not noticed yet.
            self._runs[run.run_id].revoke(_replaced(run.run_id))
            self._tasks[run.run_id].add_done_callback(lambda _: self._start(claimed, leased_until))
            return
        if self._is_leaving:
            run.leave("the host was stopped")
        self._runs[run.run_id] = run
        self._tasks[run.run_id] = asyncio.create_task(self._drive(run))
        self._view.started(run.run_id)

    async def _drive(self, run: PoolRun) -> None:
        try:
            ended = await run.drive()
            if ended is not None:
                self._view.ended(run.run_id, ended)
        except Exception as error:
            reason = _described(error)
            _LOG.error("run %s was left by its host: %s", run.run_id, reason)
            self._view.trouble(f"run {run.run_id!r}: {reason}")
        finally:
            del self._runs[run.run_id], self._tasks[run.run_id]
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
                # The leases themselves say how long that may last.
                self._trouble(error)

    async def _renew_all(self) -> None:
        # Not in the loop above: it would keep these runs during its pause, also those that end then.
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
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._look_at_logs()
            except PodiumError as error:
                self._trouble(error)

    async def _look_at_logs(self) -> None:
        heads = {run_id: head for run_id, run in self._runs.items() if (head := run.head) is not None}
        if not heads:
            return
        for run_id in await self._store.moved(heads):
            if (run := self._runs.get(run_id)) is not None and run.driver is not None:
                run.driver.nudge()
        await self._park_idle()

    async def _park_idle(self) -> None:
        for run in list(self._runs.values()):
            await run.park_if_idle()

    def _trouble(self, error: PodiumError) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            self._view.trouble(_described(error))


def _collect_less_often() -> Callable[[], None]:
    """Runs come and go by the hundred: looking through all their objects so often takes a tenth of the time.

    What the process has loaded before them stays, and is not looked through either. Returns what puts it back as it
    was.
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


def _described(error: Exception) -> str:
    """Without values: the text of an error that Podium did not raise on purpose may quote inputs and secrets."""
    if isinstance(error, PodiumError):
        return f"{error.code}: {without_credentials(str(error))}"
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {Path(one.filename).name}, line {one.lineno}" for one in place)
    return f"INTERNAL_ERROR: {type(error).__name__}{where}"


def _replaced(run_id: str) -> StaleFence:
    return StaleFence(f"run {run_id!r} was claimed again; nothing more is written under its old lease")
