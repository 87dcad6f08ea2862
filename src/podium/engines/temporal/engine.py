"""The engine for `podium run --engine temporal`: starts a run on a Temporal server and follows it in the store."""

import contextlib
from collections.abc import Iterator
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from podium.engines.parts import LocalParts
from podium.engines.server_engine import ServerEngine, require_rules
from podium.engines.temporal import client as temporal
from podium.engines.temporal.client import ExecutionExists
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.names import Queues, workflow_id
from podium.log.engines import TEMPORAL, TemporalRunRef
from podium.log.ids import RunId
from podium.log.runs import Run


class TemporalEngine(ServerEngine):
    provider = TEMPORAL

    def __init__(self, parts: LocalParts, connection: Connection, queues: Queues) -> None:
        super().__init__(parts)
        self._connection = connection
        self._queues = queues
        self._client: Client | None = None

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Translates errors of the server for people."""
        try:
            yield
        except RPCError as error:
            raise temporal.refusal(self._connection, error) from error

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await temporal.connect(self._connection, self._parts.store)
        return self._client

    async def require_place(self, run_id: str) -> None:
        client = await self._connected()
        await self._require_workers(self._queues)
        with self._asking():
            is_open = await temporal.is_open(client, run_id)
        if is_open:
            raise ExecutionExists(
                f"{self._connection.place} has an open execution {workflow_id(run_id)!r} of another store; "
                "use another run id, or another namespace"
            )

    async def require_workers(self, run: Run) -> None:
        await self._require_workers(self._queues_of(run))

    async def _require_workers(self, queues: Queues) -> None:
        require_rules(queues.rules)
        client = await self._connected()
        with self._asking():
            for queue in queues.served:
                await temporal.require_worker(client, self._connection, queue)

    def _queues_of(self, run: Run) -> Queues:
        return Queues.of_run(run) or self._queues

    async def start_execution(self, run: Run) -> None:
        client = await self._connected()
        with self._asking():
            await temporal.start_execution(client, run.identity, self._queues_of(run))

    def reference(self, run_id: str) -> tuple[TemporalRunRef, dict[str, Any]]:
        engine = TemporalRunRef(
            namespace=self._connection.namespace,
            workflow_id=workflow_id(run_id),
            run_id=RunId(run_id),
            task_queue=self._queues.decisions,
        )
        return engine, {**self._connection.facts(), **self._queues.facts()}
