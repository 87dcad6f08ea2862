"""The runs of the service on the run host: in a pool of their own, those of one node one after the other."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from podium.engines.run_host import HostView, RunHost
from podium.errors import PodiumError, RunNotFound, RunRequestPruned
from podium.log.ids import RunId
from podium.log.leases import DRIVER_LEASE
from podium.log.tracing import TRACEPARENT
from podium.log.transitions import NOT_STARTED
from podium.nodes.registration.intake import RunStart
from podium.operations.parts import Parts
from podium.operations.registration.consuming import wait_for_stop
from podium.operations.registration.view import ServeView
from podium.operations.start import prepared_request
from podium.ports.engine import RunRequest
from podium.runtime import holders
from podium.runtime.lock import RunLocked
from podium.runtime.reopening import Reopening

_LOOK_SECONDS: Final = 1.0
# Maximum number of runs to examine each time.
_MAX_LOOKED_AT: Final = 50


class PoolView(HostView):
    """Passes on what a host reports, without texts of errors."""

    def __init__(self, view: ServeView) -> None:
        self._view = view
        self.on_started: Callable[[RunId], None] = lambda _run_id: None

    def started(self, run_id: RunId) -> None:
        self.on_started(run_id)

    def ended(self, run_id: RunId, event_type: str) -> None:
        self._view.ended(run_id, event_type)

    def trouble(self, reason: str) -> None:
        self._view.trouble(
            "driving runs", "the store is away, or a run was left; see the log of this process"
        )


class PoolRuns:
    """A `Runs`. A run that waits for its turn takes a slot, too."""

    def __init__(self, parts: Parts, host: RunHost, view: PoolView, template: RunRequest) -> None:
        self._parts = parts
        self._host = host
        self._template = template
        view.on_started = self._started
        # Created here and not started yet, the oldest first.
        self._waiting: dict[RunId, None] = {}

    @property
    def free(self) -> int:
        return self._host.free - len(self._waiting)

    async def create(self, start: RunStart) -> bool:
        request = replace(
            self._template,
            inputs={"event": start.event},
            run_request_id=start.request_id,
            concurrency_key=start.concurrency_key,
            concurrency_limit=1,
            pool=self._host.pool,
            engine_facts={TRACEPARENT: start.traceparent} if start.traceparent is not None else {},
        )
        try:
            created = await self._host.create(await prepared_request(self._parts, request))
        except RunRequestPruned:
            return False  # executed long ago: a message that is delivered again is not a dead letter
        if not created.duplicate:
            self._waiting[created.run.identity.run_id] = None
        return not created.duplicate

    def _started(self, run_id: RunId) -> None:
        self._waiting.pop(run_id, None)

    async def reopen(self, run_id: RunId, end_seq: int) -> None:
        """The run is then open without a driver, and a host claims it."""
        store = self._parts.store
        run = await store.get_run(run_id)
        lease = await store.claim(run_id, owner=holders.new_owner(), ttl=DRIVER_LEASE)
        if lease is None:
            return
        try:
            with suppress(RunLocked):  # another instance was faster
                await Reopening(store, self._parts.clock, run, end_seq).carry_out(lease)
        finally:
            await store.release(lease)

    async def serve(self, stopping: asyncio.Event, *, drain: float) -> None:
        looking = asyncio.create_task(self._look_at_waiting(stopping))
        try:
            await self._host.serve(stopping, drain=drain)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_at_waiting(self, stopping: asyncio.Event) -> None:
        """Another instance may have started them."""
        while not stopping.is_set():
            await wait_for_stop(stopping, _LOOK_SECONDS)
            with suppress(PodiumError):  # the store is unavailable: retried later
                for run_id in list(self._waiting)[:_MAX_LOOKED_AT]:
                    await self._look_at(run_id)

    async def _look_at(self, run_id: RunId) -> None:
        try:
            is_waiting = (await self._parts.store.get_run(run_id)).status in NOT_STARTED
        except RunNotFound:
            is_waiting = False
        if not is_waiting:
            self._waiting.pop(run_id, None)
