"""Whether a worker serves a task domain: without one, a run would wait forever."""

import asyncio
import time
from typing import Final

from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.names import Domain, Names
from podium.engines.errors import NoWorker
from podium.engines.worker_names import is_gone

# How long a client waits for a worker.
WORKER_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.25
# Much longer than a live worker takes between two polls. The server never deletes the last poll.
_POLL_SECONDS: Final = 60.0


async def require_worker(
    client: ConductorClient, names: Names, domain: Domain, *, seconds: float = WORKER_SECONDS
) -> None:
    """Raises `NoWorker` if no worker has polled for runs of this domain within 5 seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not await has_worker(client, names, domain):
        if loop.time() >= until:
            connection = client.connection
            raise NoWorker(
                f"no worker serves the task domain {domain.name!r} of {connection.place}; start one on this host with "
                f"the same store: `{connection.worker_command()}`"
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def has_worker(client: ConductorClient, names: Names, domain: Domain) -> bool:
    return await is_polled(client, names.decider, domain)


async def is_polled(client: ConductorClient, task: str, domain: Domain) -> bool:
    """The server only knows which worker polled last. If that is on this host, its name shows whether it
    still exists.
    """
    found = await client.poll_data(task)
    return any(
        one.domain == domain.name
        and time.time() - one.last_poll_time / 1000 < _POLL_SECONDS
        and not is_gone(one.worker_id)
        for one in found
    )
