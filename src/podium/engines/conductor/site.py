"""What a worker of Conductor has for all of its runs, and what it says to the server about any of them."""

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
# No longer than the server waits for a worker that does not answer.
RUN_LEASE: Final = timedelta(seconds=8)
# For how long a task is a worker's after its last heartbeat.
HELD_SECONDS: Final = 8
BEAT_SECONDS: Final = 2.0
# How long a task waits that cannot be carried out here: the run is unknown to this store, or something is missing.
UNKNOWN_SECONDS: Final = 30
TROUBLE_SECONDS: Final = 5
_WISHES: Final = {
    PAUSED: ("PAUSE", "paused"),
    RUNNING: ("RESUME", "resumed"),
    TERMINATED: ("CANCEL", "terminated"),
}

# Run, type, id, reason: a change that was made in Conductor is an operator's wish. False: it was refused.
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
    """What a worker has for all of its runs."""

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
    # Something that is under way until it ends, whatever becomes of the run here.
    beside: Callable[[Coroutine[Any, Any, None]], None]
    unknown: UnknownRuns


def parked_owner(run_id: str) -> str:
    """Who holds the lease of a run that waits."""
    return holders.workflow_owner(CONDUCTOR, workflow_id(run_id))


async def wish(site: Site, run: Run, found: Execution | Summary) -> bool:
    """What someone changed in Conductor, sent as a signal. False if it was refused."""
    kind, done = _WISHES[found.status]
    return await site.signal(run, kind, wish_id(found, kind), f"{done} in Conductor")


class Heartbeats:
    """By them a task is this worker's for some more time; then the server hands it out again.

    By a callback that is put off: a worker that dies after a heartbeat by `extendLease` is noticed a minute later, and
    never while the execution is paused. Whether a worker has the task, its status does not say: the run's lease does.
    """

    def __init__(self, client: ConductorClient) -> None:
        self._client = client
        self._last: asyncio.Task[bool] | None = None

    async def send(self, task: Task) -> None:
        """Not cut off with its caller: the server may have it already, and answer it late."""
        update = self._client.update(task, IN_PROGRESS, callback_after=HELD_SECONDS)
        self._last = asyncio.create_task(update)
        self._last.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._last)

    async def settle(self) -> None:
        """To be awaited before the task is given back: a heartbeat that comes later would put the task off again."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=BEAT_SECONDS)
