"""Checks waiting runs: no worker keeps them, so changes that people make to their executions are detected
here.

Also repairs what a server may lose: a run without an execution gets a new one, and a notification is repeated
as long as the wake-up of its signal is in the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from podium.engines.conductor.answers import OPEN_STATUSES, PAUSED, Execution, Summary
from podium.engines.conductor.executions import is_terminated_by_hand
from podium.engines.conductor.keeping import KeptRuns
from podium.engines.conductor.names import Domain
from podium.engines.conductor.site import Site, parked_owner, wish
from podium.errors import PodiumError
from podium.log.engines import CONDUCTOR
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import moment
from podium.log.transitions import RunStatus
from podium.ports.log_fields import about

_LOG: Final = logging.getLogger(__name__)
# How many runs are queried in one call.
PAGE: Final = 100
# The time a client has to start the run that it created.
_START: Final = timedelta(seconds=10)
# A worker that gives a run another execution also pauses it, if the run is paused.
_SETTLED_SECONDS: Final = 0.3


class Reconciler:
    """`on_woken`: called when a run was woken and is available from the server."""

    def __init__(self, site: Site, kept: KeptRuns, on_woken: Callable[[], Awaitable[object]]) -> None:
        self._site = site
        self._on_woken = on_woken
        self._store = site.parts.store
        self._kept = kept
        # For runs that no execution has claimed yet: their execution.
        self._unclaimed: dict[RunId, str] = {}

    async def look(self) -> None:
        """Check all runs of this engine that are open, wait, and have their files here."""
        after = ""
        while runs := await self._store.open_runs(CONDUCTOR, after=after, limit=PAGE):
            after = runs[-1].identity.run_id
            await self._look_at([run for run in runs if self._is_served(run)])

    def _is_served(self, run: Run) -> bool:
        domain = Domain.of_run(run)
        return domain is not None and domain.name == self._site.domain.name

    async def _look_at(self, runs: Sequence[Run]) -> None:
        """The server is asked first, about all of them: the store only has to be asked if something differs."""
        others = [run for run in runs if run.identity.run_id not in self._kept]
        known = [execution for run in others if (execution := self._execution_of(run))]
        found = await self._site.client.executions(known) if known else {}
        for run in others:
            shown = found.get(self._execution_of(run))
            try:
                if not _agree(run, shown) and await self._still_waits(run):
                    await self._compare(run, shown or await self._look_for(run))
            except PodiumError as error:
                run_id = run.identity.run_id
                fields = about(run=run_id, tenant=run.identity.tenant_id)
                _LOG.warning("run %s could not be checked: %s", run_id, error, extra=fields)

    def _execution_of(self, run: Run) -> str:
        claimed = run.engine.provider_run_id if run.engine is not None else ""
        return claimed or self._unclaimed.get(run.identity.run_id, "")

    async def _look_for(self, run: Run) -> Execution | None:
        """Its execution is unknown or gone; there may be another one."""
        found = await self._site.executions.of_run(run)
        self._unclaimed.pop(run.identity.run_id, None)
        if found is not None:
            self._unclaimed[run.identity.run_id] = found.workflow_id
        return found

    async def _waits(self, run: Run) -> bool:
        """Whether no worker has it. If its worker died a moment ago, the server delivers it again."""
        held = await self._store.held_lease(run.identity.run_id)
        return held is None or not held.is_live or held.lease.owner == parked_owner(run.identity.run_id)

    async def _still_waits(self, run: Run) -> bool:
        """Whether no worker has it, and none has moved it since it was read."""
        return await self._waits(run) and (await self._store.get_run(run.identity.run_id)).head == run.head

    async def _is_as_before(self, run: Run, found: Execution | Summary) -> bool:
        """Whether no worker has had the run since, and the change was not made by a worker that gives the run
        an execution.
        """
        await asyncio.sleep(_SETTLED_SECONDS)
        run_id = run.identity.run_id
        held = await self._store.held_lease(run_id)
        is_parked = held is not None and held.lease.owner == parked_owner(run_id)
        if not is_parked or (await self._store.get_run(run_id)).head != run.head:
            return False
        now = await self._site.client.executions([found.workflow_id])
        return found.workflow_id in now and now[found.workflow_id].status == found.status

    async def _compare(self, run: Run, found: Execution | Summary | None) -> None:
        if found is None:
            if not self._is_being_started(run):
                await self._site.executions.revive(run, self._site.domain)
        elif found.status not in OPEN_STATUSES:
            if is_terminated_by_hand(found):
                await wish(self._site, run, found)
            await self._site.executions.revive(run, self._site.domain)
        elif not _agree(run, found) and await self._is_as_before(run, found):
            await self._pause_or_resume(run, found)

    async def _pause_or_resume(self, run: Run, found: Execution | Summary) -> None:
        """Pause or resume the run as a person did in Conductor. If that is refused, the execution is reset to
        the log's status.
        """
        if not await wish(self._site, run, found):
            client = self._site.client
            await (client.resume if found.status == PAUSED else client.pause)(found.workflow_id)

    def _is_being_started(self, run: Run) -> bool:
        """Whether the client that created it may still be starting it."""
        return run.head < 2 and moment(self._site.parts.now()) - moment(run.created_at) < _START

    async def nudge(self, run_id: RunId) -> bool:
        """Let a worker have a run with a new signal. False if it is to be repeated soon."""
        if run_id in self._kept:
            return True
        try:
            run = await self._store.get_run(run_id)
            if self._is_served(run) and await self._waits(run):
                await self._site.executions.wake_run(run)
                await self._on_woken()
        except PodiumError as error:
            _LOG.warning("run %s could not be woken: %s", run_id, error, extra=about(run=run_id))
            return False
        return True


def _agree(run: Run, shown: Execution | Summary | None) -> bool:
    """Whether Conductor shows the status of an open run."""
    if shown is None or shown.status not in OPEN_STATUSES:
        return False
    return (shown.status == PAUSED) == (run.status is RunStatus.PAUSED)
