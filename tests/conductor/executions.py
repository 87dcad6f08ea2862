"""What a Conductor server shows of runs: every execution has to have the status of its run."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from podium.engines.conductor.answers import COMPLETED, FAILED, TERMINATED, Execution
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.names import Names
from podium.log.events import EventRecord
from podium.ports.store import Store
from tests.conductor.site import Site
from tests.engines.site import PATIENCE, until

_T = TypeVar("_T")
_STATUS_OF = {"RunCompleted": COMPLETED, "RunFailed": FAILED, "RunCancelled": TERMINATED}


def ask(site: Site, call: Callable[[ConductorClient, Names], Awaitable[_T]]) -> _T:
    """The server of a site."""

    async def asked() -> _T:
        async def store_id(store: Store) -> str:
            return await store.store_id()

        async with ConductorClient(Connection(site.server.address)) as client:
            return await call(client, Names.of_store(await site.with_store(store_id)))

    return asyncio.run(asked())


def executions_of(site: Site, run_id: str) -> tuple[list[Execution], list[Execution]]:
    """Of the run, and of steps that were handed out; the newest last."""

    async def found(client: ConductorClient, names: Names) -> tuple[list[Execution], list[Execution]]:
        runs = await client.correlated(names.run, run_id, closed=True)
        return runs, await client.correlated(names.step_run, run_id, closed=True)

    runs, steps = ask(site, found)
    return sorted(runs, key=lambda one: one.create_time), sorted(steps, key=lambda one: one.create_time)


def problems_of_executions(site: Site, run_id: str, log: Sequence[EventRecord]) -> list[str]:
    """What the server shows that is not true, or not yet."""
    runs, steps = executions_of(site, run_id)
    # Signals that came too late may follow the end.
    wanted = next(_STATUS_OF[one.event_type] for one in reversed(log) if one.event_type in _STATUS_OF)
    found = [f"{one.workflow_id} of {run_id} is still {one.status}" for one in [*runs, *steps] if one.is_open]
    if not any(one.status == wanted for one in runs):
        found.append(f"no execution of {run_id} is {wanted}: {[one.status for one in runs]}")
    return found


def wait_for_executions(site: Site, run_id: str, seconds: float = PATIENCE) -> None:
    log = site.log_of(run_id)
    try:
        until(lambda: not problems_of_executions(site, run_id, log), "the executions to end", seconds)
    except AssertionError:
        raise AssertionError(problems_of_executions(site, run_id, log)) from None
