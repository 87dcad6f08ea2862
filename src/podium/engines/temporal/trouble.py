"""Problems that keep a run on Temporal from continuing, as seen by its server: no worker, no execution,
failing attempts.
"""

from typing import Final

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from podium.engines.temporal import client as temporal
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.names import Queues, workflow_id
from podium.errors import PodiumError
from podium.log.runs import Run
from podium.machine.machine import RULES_VERSION
from podium.ports.engine import EngineTrouble
from podium.ports.store import Contents

_MAX_FAILURES: Final = 5


async def trouble_of(run: Run, connection: Connection, contents: Contents) -> list[EngineTrouble]:
    """Empty if its engine can continue it."""
    queues = Queues.of_run(run)
    if queues is None:
        return []
    try:
        client = await temporal.connect(connection, contents)
        return [
            *await _without_worker(client, connection, queues),
            *await _of_execution(client, run),
        ]
    except (PodiumError, RPCError) as error:
        return [EngineTrouble("server", connection.address, f"{connection.place} cannot be asked: {error}")]


async def _without_worker(client: Client, connection: Connection, queues: Queues) -> list[EngineTrouble]:
    command = connection.worker_command()
    found: list[EngineTrouble] = []
    if not await temporal.has_worker(client, queues.decisions):
        found.append(EngineTrouble("worker", queues.decisions, _needs(queues), command))
    elif not await temporal.has_worker(client, queues.attempts):
        where = f"on host {queues.host!r}, where the run's files are" if queues.host else "anywhere"
        text = f"no worker serves the queue {queues.attempts!r} {where}"
        found.append(EngineTrouble("worker", queues.attempts, text, command))
    return found


def _needs(queues: Queues) -> str:
    where = f" on host {queues.host!r}" if queues.host else ""
    if queues.rules == RULES_VERSION:
        return f"no worker serves the queue {queues.decisions!r}{where}"
    return (
        f"the run was started under rules {queues.rules}, and this version of Podium has rules {RULES_VERSION}: it "
        f"needs a worker of the version that started it{where}, on the queue {queues.decisions!r}"
    )


async def _of_execution(client: Client, run: Run) -> list[EngineTrouble]:
    name = workflow_id(run.identity.run_id)
    try:
        found = await client.get_workflow_handle(name).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return [
            EngineTrouble(
                "execution", name, f"the server has no execution {name!r}; a worker starts a new one"
            )
        ]
    if found.status is not WorkflowExecutionStatus.RUNNING:
        status = found.status.name.lower() if found.status is not None else "unknown"
        return [
            EngineTrouble("execution", name, f"its execution has ended ({status}); a worker starts a new one")
        ]
    return [*_undecided(found), *_failures(found)]


def _undecided(found: WorkflowExecutionDescription) -> list[EngineTrouble]:
    tries = found.raw_description.pending_workflow_task.attempt
    if tries <= 1:
        return []
    text = f"the next decision of {found.id!r} has failed {tries - 1} times; the log of its worker says why"
    return [EngineTrouble("decision", found.id, text)]


def _failures(found: WorkflowExecutionDescription) -> list[EngineTrouble]:
    failing = [one for one in found.raw_description.pending_activities if one.last_failure.message]
    return [
        EngineTrouble(
            "attempt",
            one.activity_type.name,
            f"{one.activity_type.name} is tried again, {one.attempt} times so far: {one.last_failure.message[:500]}",
        )
        for one in failing[:_MAX_FAILURES]
    ]
