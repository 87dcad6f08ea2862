"""The executions of runs on a server: one for each run, and one for each attempt that is handed out."""

import logging
from typing import Any, Final

from podium.engines.conductor.answers import (
    COMPLETED,
    FAILED_FOR_GOOD,
    IN_PROGRESS,
    PAUSED,
    SCHEDULED,
    Execution,
    Task,
)
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.definitions import VERSION
from podium.engines.conductor.names import Domain, Names
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.machine.task_queue import TaskKey
from podium.ports.engine import RunEnded

_LOG: Final = logging.getLogger(__name__)
_MAX_REASON: Final = 500


class Executions:
    def __init__(self, client: ConductorClient, names: Names) -> None:
        self._client = client
        self._names = names

    async def start(self, run_id: RunId, domain: Domain) -> str:
        """Of a run. There may be several for a while: the first that claims the run is the run's."""
        return await self._start(self._names.run, run_id, {"runId": run_id}, domain)

    async def hand_out(self, run_id: RunId, domain: Domain, path: str, attempt: int) -> None:
        order = {"runId": run_id, "path": path, "attempt": attempt}
        await self._start(self._names.step_run, run_id, order, domain)

    async def _start(self, name: str, run_id: RunId, order: dict[str, Any], domain: Domain) -> str:
        domains = domain.tasks(self._names)
        return await self._client.start(name, VERSION, correlation_id=run_id, order=order, domains=domains)

    async def open_steps(self, run_id: RunId) -> set[TaskKey]:
        """The attempts of a run that have an open execution."""
        found = await self._client.correlated(self._names.step_run, run_id)
        keys = (attempt_of(one.input) for one in found if one.is_open)
        return {(path, attempt) for of_run, path, attempt in filter(None, keys) if of_run == run_id}

    async def of_run(self, run: Run) -> Execution | None:
        """The open one, else the newest; None if the server has none."""
        known = run.engine.provider_run_id if run.engine is not None else ""
        found = await self._client.execution(known) if known else None
        if found is not None and found.is_open:
            return found
        others = await self._client.correlated(self._names.run, run.identity.run_id, closed=True)
        is_open = [one for one in others if one.is_open]
        return next(iter(is_open), found) or max(others, key=lambda one: one.create_time, default=None)

    async def wake(self, execution: str) -> bool:
        """Let a worker have the run now. False if there is no open execution.

        The caller has seen in the store that no worker has it: its task would be handed out twice. That is harmless,
        and of no use, because that worker follows the log.
        """
        found = await self._client.execution(execution, tasks=True)
        if found is None or not found.is_open:
            return False
        task = found.last_task
        if task is not None and task.status == SCHEDULED:
            await self._client.update(task, IN_PROGRESS, callback_after=0)
        return True

    async def wake_run(self, run: Run) -> None:
        found = await self.of_run(run)
        if found is not None and found.is_open:
            await self.wake(found.workflow_id)

    async def revive(self, run: Run, domain: Domain) -> None:
        """A run that is open has an open execution, whatever became of the one it had."""
        found = await self.of_run(run)
        if found is not None and found.is_open:
            return
        if found is None or not await self._client.retry(found.workflow_id):
            await self.start(run.identity.run_id, domain)

    async def tell_end(self, task: Task, end: RunEnded) -> None:
        """Conductor shows how the run ended."""
        client, execution = self._client, task.workflow_instance_id
        found = await client.execution(execution)
        if found is None or not found.is_open:
            return
        if found.status == PAUSED:
            await client.resume(execution)  # it would not end otherwise
        if end.event_type == EventType.RUN_CANCELLED:
            await client.terminate(execution, (end.reason or "cancelled")[:_MAX_REASON])
        elif end.event_type == EventType.RUN_FAILED:
            await client.update(task, FAILED_FOR_GOOD, reason=_reason(end))
        else:
            await client.update(task, COMPLETED)


def _reason(end: RunEnded) -> str:
    text = end.error or end.reason or "failed"
    return f"{text[:_MAX_REASON]}; `podium resume {end.run_id}` continues the run"


def attempt_of(order: object) -> tuple[RunId, str, int] | None:
    """What the input of an execution names; None if it is not one of ours."""
    match order:
        case {"runId": str(run_id), "path": str(path), "attempt": int(attempt)}:
            return RunId(run_id), path, attempt
    return None


def run_of(order: object) -> RunId | None:
    match order:
        case {"runId": str(run_id)}:
            return RunId(run_id)
    return None
