"""A worker keeps the task of a run, and the run's lease, while anything in the run is in progress.

It returns both when only a person, or a distant timer, can let the run continue. The lease is parked then:
the run keeps its slot and belongs to no process. The task waits in the server's queue until it is due, or is
woken.
"""

import contextlib
import logging
from typing import Final

from podium.engines.conductor.answers import FAILED_FOR_GOOD, IN_PROGRESS, Task
from podium.engines.conductor.executions import run_of
from podium.engines.conductor.kept_run import KeptRun
from podium.engines.conductor.site import TROUBLE_SECONDS, UNKNOWN_SECONDS, Site
from podium.engines.opening import NotItsExecution
from podium.errors import PodiumError, RunNotFound, StaleFence
from podium.log.engines import CONDUCTOR
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.ports.log_fields import about
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked

_LOG: Final = logging.getLogger(__name__)
# Delay of a task whose run another worker has.
_HELD_SECONDS: Final = 1


class KeptRuns:
    """The runs that this worker decides about."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kept: dict[RunId, KeptRun] = {}
        self._is_closed = False

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._kept

    async def keep(self, task: Task) -> None:
        """Keep a run until it has ended, waits, or another worker has it. Never raises."""
        try:
            await self._keep(task)
        except PodiumError as error:
            _LOG.warning("a task of Conductor is given back: %s", error)
            await self._give_back(task, TROUBLE_SECONDS)

    async def _keep(self, task: Task) -> None:
        client, run_id = self._site.client, run_of(task.order)
        if run_id is None:
            await client.update(task, FAILED_FOR_GOOD, reason="MALFORMED_TASK: its input does not name a run")
            return None
        try:
            run = await self._site.parts.store.get_run(run_id)
        except RunNotFound as error:
            self._site.unknown.log(run_id, error)
            return await self._give_back(task, UNKNOWN_SECONDS)
        if run.status in TERMINAL and run.provider == CONDUCTOR:
            return await self._report_end(run, task)
        if not await self._is_its_execution(run, task):
            return await self._site.executions.end_other(task.workflow_instance_id, run_id)
        # The server may deliver a task twice, even concurrently: there must be no await between these two
        # lines.
        if run_id in self._kept:
            return self._kept[run_id].deliver(task)
        kept = self._kept[run_id] = KeptRun(self._site, run, task)
        if self._is_closed:
            kept.leave()
        try:
            await kept.keep()
        except NotItsExecution as error:
            await client.update(task, FAILED_FOR_GOOD, reason=f"{error.code}: {error}")
        except RunLocked:
            await self._give_back(task, _HELD_SECONDS)
        except StaleFence as error:
            _LOG.info("run %s is another worker's now: %s", run_id, error, extra=about(run=run_id))
        finally:
            del self._kept[run_id]

    async def _is_its_execution(self, run: Run, task: Task) -> bool:
        known = run.engine.provider_run_id if run.engine is not None else ""
        if known in ("", task.workflow_instance_id):
            return True
        found = await self._site.client.execution(known)
        return found is None or not found.is_open

    async def _report_end(self, run: Run, task: Task) -> None:
        end = await last_end(self._site.parts.store, run)
        assert end is not None
        await self._site.executions.report_end(task, ended_by(end))

    async def _give_back(self, task: Task, seconds: int) -> None:
        """If the server is unavailable, it gives the task to another worker later."""
        with contextlib.suppress(PodiumError):
            await self._site.client.update(task, IN_PROGRESS, callback_after=seconds)

    def leave(self) -> None:
        """The worker ends: nothing more starts, and runs are returned as soon as nothing is running here."""
        self._is_closed = True
        for kept in self._kept.values():
            kept.leave()
