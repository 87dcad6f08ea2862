"""What a Conductor worker shares among all of its runs, and what it reports to the server about any of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

import msgspec

from podium.engines.conductor.answers import (
    IN_PROGRESS,
    PAUSED,
    RUNNING,
    TERMINATED,
    Execution,
    Summary,
    Task,
)
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.executions import Executions
from podium.engines.conductor.folding import FoldedRuns
from podium.engines.conductor.mirroring import wish_id
from podium.engines.conductor.names import Domain, workflow_id
from podium.engines.conductor.slots import Slots
from podium.engines.opening import Opening
from podium.engines.parts import LocalParts
from podium.errors import RunNotFound
from podium.log.engines import CONDUCTOR
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.runtime import holders
from podium.runtime.attempts import Attempts

_LOG: Final = logging.getLogger(__name__)
# Not longer than the server waits for a worker that does not answer.
RUN_LEASE: Final = timedelta(seconds=8)
# How long a task belongs to a worker after its last heartbeat.
HELD_SECONDS: Final = 8
BEAT_SECONDS: Final = 2.0
# Delay of a task that cannot be executed here: the run is unknown to this store, or something is missing.
UNKNOWN_SECONDS: Final = 30
TROUBLE_SECONDS: Final = 5
_WISHES: Final = {
    PAUSED: ("PAUSE", "paused"),
    RUNNING: ("RESUME", "resumed"),
    TERMINATED: ("CANCEL", "terminated"),
}

# Run, type, id, reason: a change that was made in Conductor is an operator's request. False: it was refused.
SendSignal = Callable[[Run, str, str, str], Awaitable[bool]]


class UnknownRuns:
    """Runs that this store does not have: their tasks are for a worker with another store."""

    def __init__(self) -> None:
        self._logged: set[RunId] = set()

    def log(self, run_id: RunId, error: RunNotFound) -> None:
        """Once for each run, however often its task is delivered."""
        if run_id not in self._logged:
            _LOG.warning("%s; its task is given back, for a worker with another store", error)
            self._logged.add(run_id)


class Site(msgspec.Struct, frozen=True):
    """What a worker shares among all of its runs."""

    parts: LocalParts
    client: ConductorClient
    executions: Executions
    domain: Domain
    opening: Opening
    attempts: Attempts
    folded: FoldedRuns
    slots: Slots
    signal: SendSignal
    on_kept: Callable[[RunId], None]
    # Runs something in the background until it ends, whatever happens to the run here.
    beside: Callable[[Coroutine[Any, Any, None]], None]
    unknown: UnknownRuns


def parked_owner(run_id: str) -> str:
    """The owner of the lease of a run that waits."""
    return holders.workflow_owner(CONDUCTOR, workflow_id(run_id))


async def wish(site: Site, run: Run, found: Execution | Summary) -> bool:
    """Send what a person changed in Conductor as a signal. False if it was refused."""
    kind, done = _WISHES[found.status]
    return await site.signal(run, kind, wish_id(found, kind), f"{done} in Conductor")


class Heartbeats:
    """Each heartbeat extends this worker's ownership of a task; without them the server delivers it again.

    A heartbeat postpones a callback: if a worker died after a heartbeat by `extendLease`, that would be
    detected a minute later, and never while the execution is paused. The task's status does not show whether
    a worker has the task: the run's lease does.
    """

    def __init__(self, client: ConductorClient) -> None:
        self._client = client
        self._last: asyncio.Task[bool] | None = None

    async def send(self, task: Task) -> None:
        """Not cancelled with its caller: the server may have received it already, and answer late."""
        update = self._client.update(task, IN_PROGRESS, callback_after=HELD_SECONDS)
        self._last = asyncio.create_task(update)
        self._last.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._last)

    async def settle(self) -> None:
        """Awaited before the task is returned: a later heartbeat would postpone the task again."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=BEAT_SECONDS)
