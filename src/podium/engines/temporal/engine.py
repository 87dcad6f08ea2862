"""The engine for `podium run --engine temporal`: starts a run on a Temporal server and follows it in the store."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from temporalio.client import Client
from temporalio.service import RPCError

from podium.engines.creation import create_run
from podium.engines.hosting import OtherRules
from podium.engines.parts import LocalParts
from podium.engines.temporal import client as temporal
from podium.engines.temporal.client import ExecutionExists
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.names import Queues, workflow_id
from podium.engines.watching import end_unstarted, record_reopening, watch_run
from podium.errors import PodiumError
from podium.log.engines import TEMPORAL, TemporalRunRef
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.machine import RULES_VERSION
from podium.machine.obligations import Obligation
from podium.plan.capabilities import check_capabilities
from podium.plan.plan import Plan
from podium.ports.engine import Driving, Notice, Observer, RunEnded, RunRequest
from podium.runtime.holders import workflow_owner
from podium.runtime.preflight import Readiness
from podium.runtime.reopening import Reopening, RunEndedAlready


class TemporalEngine:
    """An `Engine`. This process only watches its runs: they continue without it."""

    provider = TEMPORAL

    def __init__(self, parts: LocalParts, connection: Connection, queues: Queues) -> None:
        self._parts = parts
        self._connection = connection
        self._queues = queues
        self._client: Client | None = None
        # Created here: unless they can be started, they do not stay open.
        self._created: set[RunId] = set()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Errors of the server, as a person is told of them."""
        try:
            yield
        except RPCError as error:
            raise temporal.refusal(self._connection, error) from error

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await temporal.connect(self._connection, self._parts.store)
        return self._client

    def check(self, plan: Plan, workspace: Path) -> Readiness:
        return self._parts.check(plan, workspace)

    async def create(self, request: RunRequest, *, notify: Callable[[Notice], None] | None = None) -> RunId:
        """Nothing is created unless the plan can be run there, and a worker serves the run's queues."""
        check_capabilities(request.plan, TEMPORAL)
        client = await self._connected()
        run_id = request.run_id or str(uuid4())
        with self._asking():
            await self._require_workers(client, self._queues)
            is_open = await temporal.is_open(client, run_id)
        if is_open:
            raise ExecutionExists(
                f"{self._connection.place} has an open execution {workflow_id(run_id)!r} of another store; "
                "use another run id, or another namespace"
            )
        engine = TemporalRunRef(
            namespace=self._connection.namespace,
            workflow_id=workflow_id(run_id),
            run_id=RunId(run_id),
            task_queue=self._queues.decisions,
        )
        facts = {TEMPORAL: {**self._connection.facts(), **self._queues.facts()}}
        created = await create_run(self._parts, request.on(run_id, engine, facts), notify)
        self._created.add(created)
        return created

    async def _require_workers(self, client: Client, queues: Queues) -> None:
        if queues.rules != RULES_VERSION:
            raise OtherRules(
                f"the run was started under rules {queues.rules}, and this version of Podium has rules "
                f"{RULES_VERSION}; use the version that started it"
            )
        for queue in queues.served:
            await temporal.require_worker(client, self._connection, queue)

    async def begin(self, run_id: RunId) -> bool:
        client, run = await self._connected(), await self._parts.store.get_run(run_id)
        queues = self._queues_of(run)
        with self._asking():
            await self._require_workers(client, queues)
        await self._start(client, run, queues)
        return True

    def _queues_of(self, run: Run) -> Queues:
        return Queues.of_run(run) or self._queues

    async def drive(
        self,
        run_id: RunId,
        *,
        observers: Sequence[Observer] = (),
        on_driving: Callable[[Driving], None] | None = None,
        reopen: int | None = None,
        was_open: bool = False,
        no_wait: bool = False,
        lock_wait: float | None = None,
        notify: Callable[[Notice], None] | None = None,
        check: bool = True,
        on_waiting: Callable[[Sequence[Obligation]], None] | None = None,
    ) -> RunEnded:
        """Start an execution, unless the run has one, and follow the run to its end."""
        client, store = await self._connected(), self._parts.store
        run = await store.get_run(run_id)
        reopening = Reopening(store, self._parts.clock, run, reopen, was_open=was_open)
        if await reopening.is_completed():
            raise RunEndedAlready(run_id)
        await reopening.check(run)
        queues = self._queues_of(run)
        with self._asking():
            await self._require_workers(client, queues)
        if reopening.is_wanted:
            await record_reopening(self._parts.store, reopening, _owner(run_id))
        await self._start(client, run, queues)
        return await watch_run(
            self._parts,
            run,
            observers=observers,
            on_driving=on_driving,
            on_waiting=on_waiting,
            notify=notify,
            no_wait=no_wait,
        )

    async def _start(self, client: Client, run: Run, queues: Queues) -> None:
        try:
            with self._asking():
                await temporal.start_execution(client, run.identity, queues)
        except PodiumError as error:
            if run.identity.run_id in self._created:
                await end_unstarted(self._parts, run, _owner(run.identity.run_id), error)
            raise


def _owner(run_id: RunId) -> str:
    return workflow_owner(TEMPORAL, workflow_id(run_id))
