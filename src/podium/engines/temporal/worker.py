"""A worker: decides about runs, and executes the attempts of those whose files are on its host.

It also repairs what a server may lose. A nudge that did not arrive is repeated as long as the wake-up of its
signal is in the store, and a run without an open execution gets a new one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker
from temporalio.workflow import NondeterminismError

from podium.engines.hosting import prepare_for_worker
from podium.engines.nudging import Nudger
from podium.engines.opening import PlanOf
from podium.engines.parts import LocalParts
from podium.engines.temporal import client as temporal
from podium.engines.temporal.activities import RunActivities
from podium.engines.temporal.attributes import register
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.names import Queues
from podium.engines.temporal.opening import ExecutionOpening
from podium.engines.temporal.sandbox import RunSandbox
from podium.engines.temporal.workflow import RunWorkflow
from podium.engines.worker_names import worker_name
from podium.errors import PodiumError, StoreUnavailable
from podium.log.engines import TEMPORAL
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import moment
from podium.ports.log_fields import about
from podium.runtime.attempts import Attempts
from podium.runtime.followed_views import FollowedViews
from podium.runtime.hosted_runs import HostedRuns

_LOG: Final = logging.getLogger(__name__)
_NUDGE_SECONDS: Final = 0.25
_RECONCILE_SECONDS: Final = 5.0
# After this time the next decision about a run is given to a worker other than the one that made the last.
_STICKY: Final = timedelta(seconds=2)
_HEARTBEAT: Final = timedelta(seconds=1)
# The time a client has to start the run that it created.
_START: Final = timedelta(seconds=10)
_PAGE: Final = 100


class TemporalWorker:
    """`on_ready` is called when it serves its queues."""

    def __init__(
        self,
        parts: LocalParts,
        connection: Connection,
        queues: Queues,
        plan_of: PlanOf,
        *,
        drain: timedelta,
    ) -> None:
        self._parts = parts
        self._plan_of = plan_of
        self._store = parts.store
        self._connection = connection
        self.queues = queues
        self._drain = drain
        self._views = FollowedViews(parts)

    async def serve(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Runs until `stop` is set; attempts that do not end within the drain time are left to other workers."""
        client = await temporal.connect(self._connection, self._store)
        await register(client)
        runs = HostedRuns(prepare_for_worker(self._parts))
        self._views = FollowedViews(self._parts, on_end=runs.close_if_idle)
        runs.on_open = self._views.follow
        attempts = Attempts(self._parts, runs, on_outage=_log_outage)
        activities = RunActivities(ExecutionOpening(self._parts, self._plan_of), attempts)
        async with contextlib.AsyncExitStack() as running:
            for queue in self.queues.served:
                await running.enter_async_context(self._worker(client, queue, activities))
            beside = [
                asyncio.create_task(self._nudge_again(client)),
                asyncio.create_task(self._reconcile(client)),
            ]
            on_ready()
            await stop.wait()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        await attempts.close()
        await self._views.close()

    def _worker(self, client: Client, queue: str, activities: RunActivities) -> Worker:
        return Worker(
            client,
            task_queue=queue,
            identity=worker_name(),
            workflows=[RunWorkflow],
            activities=activities.all(),
            workflow_runner=RunSandbox(),
            # The history belongs to a different version of the loop. The execution fails, and the run
            # continues from its log in a new one.
            workflow_failure_exception_types=[NondeterminismError],
            sticky_queue_schedule_to_start_timeout=_STICKY,
            graceful_shutdown_timeout=self._drain,
            # A stop reaches an attempt with its heartbeats.
            max_heartbeat_throttle_interval=_HEARTBEAT,
            default_heartbeat_throttle_interval=_HEARTBEAT,
            max_concurrent_activities=1000,
        )

    # --- repairing losses -------------------------------------------------------------------------

    async def _nudge_again(self, client: Client) -> None:
        nudger = Nudger(self._store, TEMPORAL, partial(_try_to_nudge, client))
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_NUDGE_SECONDS)
            with _surviving("wake-ups"):
                await nudger.nudge(self._parts.now(), clock())

    async def _reconcile(self, client: Client) -> None:
        """A run whose execution was terminated or deleted continues in a new one."""
        while True:
            with _surviving("runs"):
                after = ""
                while runs := await self._store.open_runs(TEMPORAL, after=after, limit=_PAGE):
                    after = runs[-1].identity.run_id
                    for run in runs:
                        with _surviving(f"run {run.identity.run_id}"):
                            await self._restart_if_lost(client, run)
                        self._show_if_here(run)
            await asyncio.sleep(_RECONCILE_SECONDS)

    def _show_if_here(self, run: Run) -> None:
        """If this host has the files of a run, keep them up to date, even while the run only waits."""
        queues = Queues.of_run(run)
        if queues is not None and queues.attempts in self.queues.served:
            self._views.follow(run.identity.run_id)

    async def _restart_if_lost(self, client: Client, run: Run) -> None:
        run_id = run.identity.run_id
        queues = Queues.of_run(run)
        if queues is None or queues.decisions not in self.queues.served or self._is_being_started(run):
            return
        if await temporal.is_open(client, run_id):
            return
        if await temporal.start_execution(client, run.identity, queues):
            fields = about(run=run_id, tenant=run.identity.tenant_id)
            _LOG.warning("run %s had no execution on the server; a new one was started", run_id, extra=fields)

    def _is_being_started(self, run: Run) -> bool:
        """Whether the client that created it may still be starting it."""
        return run.head < 2 and moment(self._parts.now()) - moment(run.created_at) < _START


async def _try_to_nudge(client: Client, run_id: RunId) -> bool:
    """False if it is to be repeated soon. A problem with one run does not delay the others."""
    try:
        await temporal.nudge(client, run_id)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            _LOG.warning("run %s could not be nudged: %s", run_id, error, extra=about(run=run_id))
            return False
    return True


@contextlib.contextmanager
def _surviving(what: str) -> Iterator[None]:
    """The server or the store is unavailable for a while; the call is retried."""
    try:
        yield
    except (RPCError, PodiumError) as error:
        _LOG.warning("%s could not be checked: %s", what, error)


def _log_outage(error: StoreUnavailable) -> None:
    """What was done is kept until it can be stored."""
    _LOG.warning("waiting for the store: %s", error)
