"""A worker: keeps the tasks of runs, decides about them, and executes attempts while it has free slots."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, Final

from podium.engines.conductor.answers import COMPLETED, FAILED_FOR_GOOD, IN_PROGRESS, Task
from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.definitions import register
from podium.engines.conductor.executions import Executions, attempt_of
from podium.engines.conductor.folding import FoldedRuns
from podium.engines.conductor.keeping import KeptRuns
from podium.engines.conductor.mirroring import patiently
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.polling import Poller
from podium.engines.conductor.reconciling import Reconciler
from podium.engines.conductor.site import (
    BEAT_SECONDS,
    TROUBLE_SECONDS,
    UNKNOWN_SECONDS,
    Heartbeats,
    SendSignal,
    Site,
    UnknownRuns,
)
from podium.engines.conductor.slots import Slots
from podium.engines.conductor.stepping import HandedOut
from podium.engines.conductor.unanswered import UnansweredTasks
from podium.engines.hosting import prepare_for_worker
from podium.engines.nudging import Nudger
from podium.engines.opening import NotItsExecution, Opening, PlanOf
from podium.engines.parts import LocalParts
from podium.engines.worker_names import worker_name
from podium.errors import PodiumError, RunNotFound, StoreUnavailable
from podium.log.engines import CONDUCTOR
from podium.runtime.attempts import AttemptNotStarted, Attempts
from podium.runtime.engine_attempt import WorkerStopped
from podium.runtime.followed_views import FollowedViews
from podium.runtime.hosted_runs import HostedRuns

_LOG: Final = logging.getLogger(__name__)
_NUDGE_SECONDS: Final = 0.05
# A check every 2 s costs the server half as much as its own sweeps; manual changes are to be noticed within 5
# s.
RECONCILE_SECONDS: Final = 3.0
_UNANSWERED_SECONDS: Final = 2.0
_MAX_RUNS_PER_POLL: Final = 20


class ConductorWorker:
    """`slots`: concurrent attempts. `decides`: also decides about runs, and not only executes what is handed
    out.
    """

    def __init__(
        self,
        parts: LocalParts,
        connection: Connection,
        domain: Domain,
        plan_of: PlanOf,
        signal: SendSignal,
        *,
        slots: int,
        decides: bool,
        drain: timedelta,
    ) -> None:
        self._parts = parts
        self._connection = connection
        self.domain = domain
        self._plan_of = plan_of
        self._signal = signal
        self._slots = Slots(slots)
        self._decides = decides
        self._drain = drain
        self._name = worker_name()
        self._under_way: set[asyncio.Task[None]] = set()

    async def serve(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Runs until `stop` is set; attempts that do not end within the drain time are left to other workers."""
        async with await connect(self._connection) as client:
            names = Names.of_store(await self._parts.store.store_id())
            await register(client, names)
            hosted = HostedRuns(prepare_for_worker(self._parts))
            views = FollowedViews(self._parts, on_end=hosted.close_if_idle)
            hosted.on_open = views.follow
            attempts = Attempts(self._parts, hosted, replaces=False, on_outage=_log_outage)
            site = self._site(client, names, attempts, FoldedRuns(self._parts, hosted), views)
            await self._serve(site, names, stop, on_ready)
            await views.close()

    def _site(
        self,
        client: ConductorClient,
        names: Names,
        attempts: Attempts,
        folded: FoldedRuns,
        views: FollowedViews,
    ) -> Site:
        return Site(
            self._parts,
            client,
            Executions(client, names),
            self.domain,
            Opening(self._parts, self._plan_of, CONDUCTOR),
            attempts,
            folded,
            self._slots,
            self._signal,
            views.follow,
            self._launch,
            UnknownRuns(),
        )

    async def _serve(
        self, site: Site, names: Names, stop: asyncio.Event, on_ready: Callable[[], None]
    ) -> None:
        kept = KeptRuns(site)
        steps = HandedOut(self._parts.store, site.attempts, site.folded)
        pollers = [
            Poller(
                partial(self._ask, site.client, names.step),
                lambda: self._slots.free,
                lambda task: self._launch(self._step(site, steps, task)),
            )
        ]
        beside: list[asyncio.Task[None]] = []
        if self._decides:
            runs = Poller(
                partial(self._ask, site.client, names.decider),
                lambda: _MAX_RUNS_PER_POLL,
                lambda task: self._launch(kept.keep(task)),
            )
            reconciler = Reconciler(site, kept, runs.look)
            pollers.append(runs)
            unanswered = UnansweredTasks(site.client, names, self.domain)
            looks = [_every(RECONCILE_SECONDS, reconciler.look), _every(_UNANSWERED_SECONDS, unanswered.look)]
            beside += [asyncio.create_task(one) for one in (*looks, self._nudge(reconciler))]
        polls = [asyncio.create_task(poller.run()) for poller in pollers]
        on_ready()
        await stop.wait()
        for poller in pollers:
            poller.stop()
        await asyncio.gather(*polls, return_exceptions=True)
        for task in beside:
            task.cancel()
        kept.leave()
        await self._end(site.attempts)

    async def _ask(self, client: ConductorClient, task: str, count: int, wait_ms: int) -> list[Task]:
        return await client.poll(
            task, domain=self.domain.name, worker=self._name, count=count, timeout_ms=wait_ms
        )

    async def _end(self, attempts: Attempts) -> None:
        """Return runs and steps, so that other workers need not wait until the server detects the end."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._drain.total_seconds())
        await attempts.close()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=BEAT_SECONDS)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _launch(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a task of Conductor failed here", exc_info=task.exception())

    # --- attempts that were handed out ------------------------------------------------------------

    async def _step(self, site: Site, steps: HandedOut, task: Task) -> None:
        heartbeats = Heartbeats(site.client)
        beating = asyncio.create_task(_every(BEAT_SECONDS, lambda: heartbeats.send(task)))
        try:
            # Runs that are decided here may have taken slots that were free when the server was asked.
            await self._slots.acquire()
            try:
                report = await self._perform(site, steps, task)
            finally:
                self._slots.give()
        finally:
            beating.cancel()
        await heartbeats.settle()
        await patiently(report)

    async def _perform(self, site: Site, steps: HandedOut, task: Task) -> Callable[[], Awaitable[object]]:
        """Execute it; returns the report to the server."""
        update, named = site.client.update, attempt_of(task.order)
        if named is None:
            reason = "MALFORMED_TASK: its input does not name an attempt"
            return lambda: update(task, FAILED_FOR_GOOD, reason=reason)
        try:
            await steps.perform(*named)
        except WorkerStopped:
            return lambda: update(task, IN_PROGRESS, callback_after=0)
        except NotItsExecution as error:
            refusal = f"{error.code}: {error}"
            return lambda: update(task, FAILED_FOR_GOOD, reason=refusal)
        except RunNotFound as error:
            site.unknown.log(named[0], error)
            return lambda: update(task, IN_PROGRESS, callback_after=UNKNOWN_SECONDS)
        except (AttemptNotStarted, PodiumError) as error:
            _LOG.warning("an attempt is given back: %s", error)
            return lambda: update(task, IN_PROGRESS, callback_after=TROUBLE_SECONDS)
        return lambda: update(task, COMPLETED)

    # --- repairing losses -------------------------------------------------------------------------

    async def _nudge(self, reconciler: Reconciler) -> None:
        nudger = Nudger(self._parts.store, CONDUCTOR, reconciler.nudge)
        clock = asyncio.get_running_loop().time
        await _every(_NUDGE_SECONDS, lambda: nudger.nudge(self._parts.now(), clock()))


async def _every(seconds: float, call: Callable[[], Awaitable[object]]) -> None:
    """The server or the store may be unavailable for a while: then the call is retried."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await call()
        except PodiumError as error:
            _LOG.warning("%s", error)
        except Exception:
            # Without it runs could wait forever.
            _LOG.exception("this is tried again")


def _log_outage(error: StoreUnavailable) -> None:
    """What was done is kept until it can be stored."""
    _LOG.warning("waiting for the store: %s", error)
