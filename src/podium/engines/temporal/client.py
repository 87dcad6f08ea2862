"""The connection to a Temporal server, and queries about it: whether it is available, and which workers serve
a queue.
"""

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from podium.engines.errors import EngineRefused, EngineUnavailable, NoWorker
from podium.engines.temporal.attributes import attributes_of
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.converter import data_converter
from podium.engines.temporal.messages import RunArgs
from podium.engines.temporal.names import Queues, workflow_id, workflow_type
from podium.engines.worker_names import is_gone
from podium.errors import InvalidConfiguration, PodiumError
from podium.log.events import RunIdentity
from podium.ports.store import Contents
from podium.text import reason_of

_CONNECT_SECONDS: Final = 10.0
_CALL: Final = timedelta(seconds=10)
# How long a client waits for a worker that serves a queue.
WORKER_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.25
# Longer than a worker waits for an answer to one request for work.
_POLL_SECONDS: Final = 75.0
# How long a decision may take before another worker is asked; the death of a worker is detected after this
# time.
_TASK_TIMEOUT: Final = timedelta(seconds=5)


class ExecutionExists(PodiumError):
    """Another execution has the id that this run would have on the server."""

    code = "EXECUTION_EXISTS"


async def connect(connection: Connection, contents: Contents) -> Client:
    """Raises `EngineUnavailable` and `EngineRefused`. When it returns, the namespace exists and may be used."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            client = await Client.connect(
                connection.address,
                namespace=connection.namespace,
                api_key=connection.api_key,
                tls=_tls(connection),
                data_converter=data_converter(contents),
            )
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=connection.namespace), timeout=_CALL
            )
    except TimeoutError as error:
        raise _unavailable(connection, "no answer within 10 seconds") from error
    except RPCError as error:
        raise refusal(connection, error) from error
    except (RuntimeError, ValueError) as error:
        raise _unavailable(connection, _first_line(error)) from error
    return client


def _tls(connection: Connection) -> TLSConfig | bool:
    given = (connection.tls_ca, connection.tls_cert, connection.tls_key, connection.tls_server_name)
    if not any(given):
        return connection.tls or connection.api_key is not None
    return TLSConfig(
        server_root_ca_cert=_read(connection.tls_ca),
        client_cert=_read(connection.tls_cert),
        client_private_key=_read(connection.tls_key),
        domain=connection.tls_server_name,
    )


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidConfiguration(
            f"the certificate or key {str(path)!r} cannot be read: {error.strerror}"
        ) from error


def _unavailable(connection: Connection, reason: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{connection.place} cannot be reached: {reason}; check --address and whether TLS is needed (--tls), "
        "or start a server, for instance `temporal server start-dev`"
    )


def refusal(connection: Connection, error: RPCError) -> PodiumError:
    """The error that describes a server error to a person."""
    match error.status:
        case RPCStatusCode.NOT_FOUND:
            return EngineRefused(
                f"the Temporal server at {connection.address} has no namespace {connection.namespace!r}; "
                f"name another with --namespace, or create it: `temporal operator namespace create "
                f"-n {connection.namespace}`"
            )
        case RPCStatusCode.UNAUTHENTICATED | RPCStatusCode.PERMISSION_DENIED:
            return EngineRefused(
                f"{connection.place} does not accept this client: {_first_line(error)}; "
                "check --api-key-file or --tls-cert and --tls-key"
            )
    return _unavailable(connection, _first_line(error))


def _first_line(error: BaseException) -> str:
    return reason_of(error).strip().split("\n")[0][:300]


# --- queues ---------------------------------------------------------------------------------------


async def require_worker(client: Client, connection: Connection, queue: str) -> None:
    """Raises `NoWorker` if no worker has asked for work of this queue within 5 seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + WORKER_SECONDS
    while not await has_worker(client, queue):
        if loop.time() >= until:
            raise NoWorker(
                f"no worker serves the task queue {queue!r} of {connection.place}; start one on this host with the "
                f"same store: `{connection.worker_command()}`"
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def has_worker(client: Client, queue: str) -> bool:
    """The server remembers workers for minutes; a live one has polled within the last one.

    If it is on this host, its name shows whether it still exists.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    found = await client.workflow_service.describe_task_queue(request, timeout=_CALL)
    return any(
        time.time() - one.last_access_time.seconds < _POLL_SECONDS and not is_gone(one.identity)
        for one in found.pollers
    )


# --- executions -----------------------------------------------------------------------------------


async def is_open(client: Client, run_id: str) -> bool:
    """Whether the run has an execution that has not ended."""
    try:
        found = await client.get_workflow_handle(workflow_id(run_id)).describe(rpc_timeout=_CALL)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return found.status is WorkflowExecutionStatus.RUNNING


async def start_execution(client: Client, run: RunIdentity, queues: Queues) -> bool:
    """False if the run has an open execution already."""
    args = RunArgs(run.run_id, queues.attempts)
    try:
        await client.start_workflow(
            workflow_type(queues.rules),
            args,
            id=workflow_id(args.run_id),
            task_queue=queues.decisions,
            search_attributes=await attributes_of(client, run),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            task_timeout=_TASK_TIMEOUT,
            rpc_timeout=_CALL,
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


async def nudge(client: Client, run_id: str) -> None:
    """The run's log has new records."""
    await client.get_workflow_handle(workflow_id(run_id)).signal("nudge", rpc_timeout=_CALL)
