"""The executions of runs on a server: one for each run, and one for each attempt that is handed out."""

import logging
from typing import Any, Final

from podium.engines.conductor.answers import (
    COMPLETED,
    FAILED,
    FAILED_FOR_GOOD,
    IN_PROGRESS,
    PAUSED,
    SCHEDULED,
    TERMINATED,
    Execution,
    Summary,
    Task,
)
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.definitions import VERSION, register
from podium.engines.conductor.names import Domain, Names
from podium.engines.errors import EngineRefused
from podium.log.events import EventType
from podium.log.ids import RunId, is_id
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.machine.task_queue import TaskKey
from podium.ports.engine import RunEnded

_LOG: Final = logging.getLogger(__name__)
_MAX_REASON: Final = 500
# Prefix of the reasons that a worker gives.
_BY_PODIUM: Final = "Podium: "
# The status of an execution whose run has ended.
_SHOWN: Final[dict[str, str]] = {
    EventType.RUN_COMPLETED: COMPLETED,
    EventType.RUN_FAILED: FAILED,
    EventType.RUN_CANCELLED: TERMINATED,
}


class Executions:
    def __init__(self, client: ConductorClient, names: Names) -> None:
        self._client = client
        self._names = names

    async def start(self, run_id: RunId, domain: Domain) -> str:
        """Start an execution of a run. Several may exist for a while: the first one that claims the run
        becomes the run's execution.
        """
        return await self._start(self._names.run, run_id, {"runId": run_id}, domain)

    async def hand_out(self, run_id: RunId, domain: Domain, path: str, attempt: int) -> None:
        order = {"runId": run_id, "path": path, "attempt": attempt}
        await self._start(self._names.step_run, run_id, order, domain)

    async def _start(self, name: str, run_id: RunId, order: dict[str, Any], domain: Domain) -> str:
        domains, start = domain.tasks(self._names), self._client.start
        try:
            return await start(name, VERSION, correlation_id=run_id, order=order, domains=domains)
        except EngineRefused:
            # A server that has lost its data has no definitions, either.
            await register(self._client, self._names)
            return await start(name, VERSION, correlation_id=run_id, order=order, domains=domains)

    async def open_steps(self, run_id: RunId, domain: Domain) -> set[TaskKey]:
        """The attempts of a run that have an open execution, which workers of the domain receive."""
        found = await self._client.correlated(self._names.step_run, run_id)
        mine = [one for one in found if one.task_to_domain.get(self._names.step) == domain.name]
        keys = (attempt_of(one.input) for one in mine if one.is_open)
        return {(path, attempt) for of_run, path, attempt in filter(None, keys) if of_run == run_id}

    async def untaken_steps(self, run_id: RunId) -> list[str]:
        """The paths of steps that were handed out but not taken by any worker yet."""
        found = await self._client.correlated(self._names.step_run, run_id, tasks=True)
        untaken = [one for one in found if one.last_task is not None and not one.last_task.poll_count]
        named = filter(None, (attempt_of(one.input) for one in untaken))
        return sorted({path for of_run, path, _ in named if of_run == run_id})

    async def of_run(self, run: Run) -> Execution | None:
        """The open execution, else the newest; None if the server has none."""
        known = run.engine.provider_run_id if run.engine is not None else ""
        found = await self._client.execution(known) if known else None
        if found is not None and found.is_open:
            return found
        others = await self._others(run)
        is_open = [one for one in others if one.is_open]
        return next(iter(is_open), found) or max(others, key=lambda one: one.create_time, default=None)

    async def _others(self, run: Run) -> list[Execution]:
        """Other executions that lead a worker to the run. A forged one may have only the run's correlation
        id.
        """
        run_id, domain = run.identity.run_id, Domain.of_run(run)
        found = await self._client.correlated(self._names.run, run_id, closed=True)
        return [
            one
            for one in found
            if run_of(one.input) == run_id
            and (domain is None or one.task_to_domain.get(self._names.decider) == domain.name)
        ]

    async def wake(self, execution: str) -> bool:
        """Let a worker have the run now. False if there is no open execution.

        The caller has checked in the store that no worker has it; otherwise its task would be delivered
        twice. That is harmless but useless, because that worker follows the log.
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

    async def revive(self, run: Run, domain: Domain) -> str:
        """Ensure that a run has an open execution, whatever happened to the one it had; returns its id."""
        found = await self.of_run(run)
        if found is not None and found.is_open:
            return found.workflow_id
        execution = await self._retry(found) if found is not None else None
        execution = execution or await self.start(run.identity.run_id, domain)
        if run.status is RunStatus.PAUSED:
            # Otherwise it would look as if a person had resumed it. Its task is delivered nevertheless.
            await self._client.pause(execution)
        return execution

    async def _retry(self, found: Execution) -> str | None:
        """None if it cannot run again. Another worker may have been faster."""
        if await self._client.retry(found.workflow_id):
            return found.workflow_id
        now = await self._client.execution(found.workflow_id)
        return found.workflow_id if now is not None and now.is_open else None

    async def end_other(self, execution: str, run_id: RunId) -> None:
        """End an execution that the run does not need, because it has another one."""
        await self._client.terminate(execution, f"{_BY_PODIUM}run {run_id} has another execution")

    async def report_end(self, task: Task, end: RunEnded) -> bool:
        """Show in Conductor how the run ended. False if the execution was deleted, or was ended in another
        way by a person.
        """
        client, execution = self._client, task.workflow_instance_id
        found = await client.execution(execution)
        if found is None or not found.is_open:
            return found is not None and found.status == _SHOWN.get(end.event_type)
        if found.status == PAUSED:
            await client.resume(execution)  # otherwise it would not end
        if end.event_type == EventType.RUN_CANCELLED:
            await client.terminate(execution, _reason(end, "cancelled"))
        elif end.event_type == EventType.RUN_FAILED:
            await client.update(task, FAILED_FOR_GOOD, reason=_reason(end, "failed"))
        else:
            await client.update(task, COMPLETED)
        return True


def _reason(end: RunEnded, otherwise: str) -> str:
    code = f"{end.error_code}: " if end.error_code else ""
    text = f"{code}{end.error or end.reason or otherwise}"[:_MAX_REASON]
    return f"{_BY_PODIUM}{text}; `podium resume {end.run_id}` continues the run"


def is_terminated_by_hand(found: Execution | Summary) -> bool:
    """Whether a person terminated it, and not a worker because its run was cancelled or has another
    execution.
    """
    reason = found.reason_for_incompletion or ""
    return found.status == TERMINATED and not reason.startswith(_BY_PODIUM)


def attempt_of(order: object) -> tuple[RunId, str, int] | None:
    """The attempt that the input of an execution names; None if it is not one of ours."""
    match order:
        case {"runId": str(run_id), "path": str(path), "attempt": int(attempt)} if is_id(run_id):
            return RunId(run_id), path, attempt
    return None


def run_of(order: object) -> RunId | None:
    match order:
        case {"runId": str(run_id)} if is_id(run_id):
            return RunId(run_id)
    return None
