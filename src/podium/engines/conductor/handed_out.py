"""Attempts of a run that other workers execute, as seen by the worker that decides about the run."""

import asyncio
import contextlib
import logging
from typing import Final

from podium.engines.conductor.deciding import DecidingLoop
from podium.engines.conductor.mirroring import patiently
from podium.engines.conductor.site import Site
from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.machine.task_queue import TaskKey
from podium.ports.log_fields import about

_LOG: Final = logging.getLogger(__name__)
_SETTLED_SECONDS: Final = 0.3


class HandedOutAttempts:
    def __init__(self, site: Site, run_id: RunId) -> None:
        self._site = site
        self._store = site.parts.store
        self._run_id = run_id

    async def hand_out(self, path: str, attempt: int) -> None:
        site = self._site
        await patiently(lambda: site.executions.hand_out(self._run_id, site.domain, path, attempt))

    async def under_way(self, loop: DecidingLoop) -> set[TaskKey]:
        """Started attempts that a worker holds or will receive from the server."""
        machine = loop.follower.machine
        started = {key for key in machine.waits if isinstance(key, tuple) and len(key) == 2}
        started = {key for key in started if machine.has_started(*key)}
        if not started:
            return set()
        held = await self._held()
        with contextlib.suppress(PodiumError):
            return started & (held | await self._open())
        return started & held

    async def _open(self) -> set[TaskKey]:
        return await self._site.executions.open_steps(self._run_id, self._site.domain)

    async def _held(self) -> set[TaskKey]:
        names = [one.lease.fence.attempt for one in await self._store.held_attempts(self._run_id)]
        return {(path, int(attempt)) for path, _, attempt in (name.rpartition("|") for name in names)}

    async def look_for_missing(self, loop: DecidingLoop) -> None:
        """Hand out again attempts whose execution was terminated or deleted by a person."""
        if not loop.handed_out:
            return
        missing = await self._missing(loop)
        if missing:
            # They may have ended during the check.
            await asyncio.sleep(_SETTLED_SECONDS)
            missing &= await self._missing(loop)
        for key in missing:
            fields = about(run=self._run_id, step=key[0])
            shown = (key[1], key[0], self._run_id)
            _LOG.warning("attempt %s of %r of run %s is handed out again", *shown, extra=fields)
            loop.hand_out(key)
        loop.wake()

    async def _missing(self, loop: DecidingLoop) -> set[TaskKey]:
        """Attempts that were handed out, are neither open nor held, and have not ended."""
        held = await self._held()
        loop.held = frozenset(held)
        missing = loop.handed_out - held - await self._open()
        return (missing & loop.handed_out) - loop.on_the_way
