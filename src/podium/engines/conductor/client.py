"""The calls of Conductor's REST interface that Podium makes. Calls are not repeated here: callers know
whether they may be.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from podium.engines.conductor.answers import (
    IN_PROGRESS,
    Execution,
    LogLine,
    PollData,
    Summary,
    Task,
    TaskSummary,
)
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.transport import CALL_SECONDS, Transport, message_of
from podium.engines.errors import EngineRefused, EngineUnavailable

_NOT_FOUND: Final = 404
# The server's response to a change that the status of an execution does not allow.
_CONFLICT: Final = 409
_INTERNAL: Final = 500
_SEARCH_SIZE: Final = "500"


async def connect(connection: Connection) -> "ConductorClient":
    """Raises `EngineUnavailable` and `EngineRefused`. When it returns, the server is healthy and accepts this
    client.
    """
    client = ConductorClient(connection)
    try:
        await client.check()
    except BaseException:
        await client.close()
        raise
    return client


class ConductorClient:
    """Every call raises `EngineUnavailable` if the server gives no usable answer, `EngineRefused` if it
    refuses.
    """

    def __init__(self, connection: Connection, *, seconds: float = CALL_SECONDS) -> None:
        self.connection = connection
        self._transport = Transport(connection, seconds=seconds)

    @property
    def calls(self) -> int:
        """How many calls were made, for measurements."""
        return self._transport.calls

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> "ConductorClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- the server -------------------------------------------------------------------------------

    async def check(self) -> None:
        """Check that the server is Conductor, is healthy, and accepts the token."""
        if not (await self._transport.get("/health", _Health)).healthy:
            raise EngineUnavailable(
                f"{self.connection.place} reports that it is not healthy; look at its log"
            )
        await self.poll_data("podium")

    async def version(self) -> str:
        return (await self._transport.send("GET", "/api/version")).text.strip()

    # --- definitions ------------------------------------------------------------------------------

    async def define(
        self, tasks: Sequence[Mapping[str, Any]], workflows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Replaces definitions of the same name and version."""
        await self._transport.send("POST", "/api/metadata/taskdefs", body=tasks)
        answer = await self._transport.send("PUT", "/api/metadata/workflow", body=workflows)
        failed = self._transport.decode(answer, _Bulk).bulk_error_results
        if failed:
            raise EngineRefused(
                f"{self.connection.place} refuses the definition of {', '.join(sorted(failed))}: "
                f"{next(iter(failed.values()))}"
            )

    async def newest_version(self, workflow: str) -> int | None:
        """None if the name is not defined."""
        found = await self._transport.get(
            f"/api/metadata/workflow/{_part(workflow)}/versions", list[_Version]
        )
        return max((one.version for one in found), default=None)

    # --- executions -------------------------------------------------------------------------------

    async def start(
        self,
        workflow: str,
        version: int,
        *,
        correlation_id: str,
        order: Mapping[str, Any],
        domains: Mapping[str, str] | None = None,
    ) -> str:
        """Start an execution and return its id. Not idempotent: a repeated call starts a second one."""
        body = {
            "name": workflow,
            "version": version,
            "correlationId": correlation_id,
            "input": order,
            "taskToDomain": domains or {},
        }
        return (await self._transport.send("POST", "/api/workflow", body=body)).text.strip().strip('"')

    async def execution(self, execution: str, *, tasks: bool = False) -> Execution | None:
        """None if there is none with this id, or it was deleted."""
        answer = await self._transport.send(
            "GET", _of(execution), params={"includeTasks": _flag(tasks)}, no=(_NOT_FOUND,)
        )
        return self._transport.decode(answer, Execution) if answer.is_success else None

    async def executions(self, executions: Sequence[str]) -> dict[str, Summary]:
        """By their ids; deleted ones are omitted."""
        answer = await self._transport.send(
            "POST", "/api/workflow/bulk/search", params={"includeTasks": "false"}, body=list(executions)
        )
        found = self._transport.decode(answer, _Summaries).bulk_successful_results
        return {one.workflow_id: one for one in found}

    async def correlated(
        self, workflow: str, correlation_id: str, *, closed: bool = False, tasks: bool = False
    ) -> list[Execution]:
        """Executions of this workflow with this correlation id. Without `closed` only RUNNING ones, not
        PAUSED ones.
        """
        params = {"includeClosed": _flag(closed), "includeTasks": _flag(tasks)}
        path = f"/api/workflow/{_part(workflow)}/correlated/{_part(correlation_id)}"
        return await self._transport.get(path, list[Execution], params)

    async def pause(self, execution: str) -> bool:
        """False if it has ended or was deleted. A task that is already scheduled is still delivered."""
        answer = await self._transport.send("PUT", f"{_of(execution)}/pause", no=(_NOT_FOUND, _CONFLICT))
        return answer.is_success

    async def resume(self, execution: str) -> bool:
        """False if it is not paused, or was deleted."""
        answer = await self._transport.send(
            "PUT", f"{_of(execution)}/resume", no=(_NOT_FOUND, _CONFLICT, _INTERNAL)
        )
        if answer.status_code == _INTERNAL and "is not PAUSED" not in message_of(answer):
            raise self._transport.failure("PUT", f"{_of(execution)}/resume", answer)
        return answer.is_success

    async def terminate(self, execution: str, reason: str) -> bool:
        """False if it was deleted. One that has ended is not changed."""
        answer = await self._transport.send(
            "DELETE", _of(execution), params={"reason": reason}, no=(_NOT_FOUND, _CONFLICT)
        )
        return answer.is_success

    async def retry(self, execution: str) -> bool:
        """Let an execution that failed or was terminated run again. False if it is open, completed or deleted."""
        answer = await self._transport.send("POST", f"{_of(execution)}/retry", no=(_NOT_FOUND, _CONFLICT))
        return answer.is_success

    async def remove(self, execution: str) -> bool:
        """False if it was already deleted."""
        params = {"archiveWorkflow": "false"}
        answer = await self._transport.send(
            "DELETE", f"{_of(execution)}/remove", params=params, no=(_NOT_FOUND,)
        )
        return answer.is_success

    # --- tasks ------------------------------------------------------------------------------------

    async def poll(
        self, task: str, *, domain: str, worker: str, count: int = 1, timeout_ms: int = 100
    ) -> list[Task]:
        """Waits the whole time unless `count` tasks are available. A poll that is cancelled may lose a task."""
        params = {
            "workerid": worker,
            "domain": domain,
            "count": str(count),
            "timeout": str(timeout_ms),
        }
        path = f"/api/tasks/poll/batch/{_part(task)}"
        answer = await self._transport.send("GET", path, params=params, waits=timeout_ms / 1000)
        return self._transport.decode(answer, list[Task])

    async def polled(self, task: str) -> list[TaskSummary]:
        """Tasks that a worker has polled and not answered since, according to the server's index."""
        params = {"query": f"status={IN_PROGRESS} AND taskType={task}", "size": _SEARCH_SIZE}
        return (await self._transport.get("/api/tasks/search", _Tasks, params)).results

    async def update(
        self,
        task: Task,
        status: str,
        *,
        callback_after: int = 0,
        reason: str | None = None,
        output: Mapping[str, Any] | None = None,
        worker: str | None = None,
    ) -> bool:
        """False if the task or its execution was deleted. True proves nothing: an update after the end is
        dropped.

        IN_PROGRESS returns the task; it is delivered again after `callback_after` whole seconds. So it also
        wakes a task that is SCHEDULED; one that is held by a worker would be delivered twice.
        """
        body: dict[str, Any] = {"status": status, "callbackAfterSeconds": callback_after}
        body |= {"outputData": output or {}, "workerId": worker or task.worker_id or ""}
        if reason is not None:
            body["reasonForIncompletion"] = reason
        body |= {"taskId": task.task_id, "workflowInstanceId": task.workflow_instance_id}
        return (await self._transport.send("POST", "/api/tasks", body=body, no=(_NOT_FOUND,))).is_success

    async def log(self, task_id: str, line: str) -> None:
        """Add a line to the page of the task. The server accepts it even if the task does not exist."""
        await self._transport.send("POST", f"/api/tasks/{_part(task_id)}/log", text=line)

    async def log_lines(self, task_id: str) -> list[LogLine]:
        return await self._transport.get(f"/api/tasks/{_part(task_id)}/log", list[LogLine])

    async def poll_data(self, task: str) -> list[PollData]:
        """The last worker that polled, for every domain of the task's queue."""
        return await self._transport.get("/api/tasks/queue/polldata", list[PollData], {"taskType": task})


class _Tasks(msgspec.Struct):
    results: list[TaskSummary] = []


class _Health(msgspec.Struct):
    healthy: bool


class _Version(msgspec.Struct):
    version: int


class _Bulk(msgspec.Struct, rename="camel"):
    bulk_error_results: dict[str, str] = {}


class _Summaries(msgspec.Struct, rename="camel"):
    bulk_successful_results: list[Summary]


def _of(execution: str) -> str:
    return f"/api/workflow/{_part(execution)}"


def _part(text: str) -> str:
    """A quoted part of a path: ids of runs contain dots and other characters that are special in URLs."""
    return quote(text, safe="")


def _flag(value: bool) -> str:
    return "true" if value else "false"
