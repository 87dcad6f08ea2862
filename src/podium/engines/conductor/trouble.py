"""Problems that keep a run on Conductor from continuing, as seen by its server: no worker, no execution."""

from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.executions import Executions
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.workers import has_worker, is_polled
from podium.errors import PodiumError
from podium.log.runs import Run
from podium.machine.machine import RULES_VERSION
from podium.ports.engine import EngineTrouble


async def trouble_of(run: Run, connection: Connection, store_id: str) -> list[EngineTrouble]:
    """Empty if its engine can continue it."""
    domain, names = Domain.of_run(run), Names.of_store(store_id)
    if domain is None:
        return []
    try:
        async with await connect(connection) as client:
            return [
                *await _without_worker(client, names, domain),
                *await _of_execution(Executions(client, names), run),
                *await _of_steps(client, names, domain, run),
            ]
    except PodiumError as error:
        return [EngineTrouble("server", connection.url, f"{connection.place} cannot be asked: {error}")]


async def _without_worker(client: ConductorClient, names: Names, domain: Domain) -> list[EngineTrouble]:
    if await has_worker(client, names, domain):
        return []
    return [EngineTrouble("worker", domain.name, _needs(domain), client.connection.worker_command())]


def _needs(domain: Domain) -> str:
    where = f" on host {domain.host!r}, where the run's files are" if domain.host else ""
    if domain.rules == RULES_VERSION:
        return f"no worker serves the task domain {domain.name!r}{where}"
    return (
        f"the run was started under rules {domain.rules}, and this version of Podium has rules {RULES_VERSION}: it "
        f"needs a worker of the version that started it{where}"
    )


async def _of_execution(executions: Executions, run: Run) -> list[EngineTrouble]:
    found = await executions.of_run(run)
    if found is None:
        name = run.identity.run_id
        text = f"the server has no execution of run {name!r}; a worker starts a new one"
        return [EngineTrouble("execution", name, text)]
    if not found.is_open:
        text = f"its execution has ended ({found.status.lower()}); a worker starts a new one"
        return [EngineTrouble("execution", found.workflow_id, text)]
    return []


async def _of_steps(client: ConductorClient, names: Names, domain: Domain, run: Run) -> list[EngineTrouble]:
    """The log says that these attempts have started: without this check they would seem to be running."""
    untaken = await Executions(client, names).untaken_steps(run.identity.run_id)
    if not untaken or await is_polled(client, names.step, domain):
        return []
    more = f" and {len(untaken) - 1} more" if len(untaken) > 1 else ""
    text = (
        f"step {untaken[0]!r}{more} waits for a worker with a free slot, and none serves the task domain "
        f"{domain.name!r}: all are busy, or decide only (--slots 0)"
    )
    return [EngineTrouble("slots", untaken[0], text, f"{client.connection.worker_command()} --steps-only")]
