"""Removes a run from a Conductor server: its executions, and those of the steps that were handed out."""

import asyncio
from collections.abc import Iterable
from typing import Final

from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.names import Names
from podium.log.runs import Run

# Removed concurrently, because a run may have handed out thousands of steps.
_TOGETHER: Final = 8


async def remove_executions(run: Run, connection: Connection, store_id: str) -> None:
    """Remove the executions of a run that has ended. Raises `EngineUnavailable` and `EngineRefused`;
    repeated, it removes the rest.
    """
    names, run_id = Names.of_store(store_id), run.identity.run_id
    async with await connect(connection) as client:
        # Those of the run last: as long as they exist, something is left.
        for name in (names.step_run, names.run):
            found = await client.correlated(name, run_id, closed=True)
            await _remove(client, [one.workflow_id for one in found])


async def _remove(client: ConductorClient, executions: Iterable[str]) -> None:
    left = list(executions)
    while left:
        batch, left = left[:_TOGETHER], left[_TOGETHER:]
        await asyncio.gather(*(client.remove(execution) for execution in batch))
