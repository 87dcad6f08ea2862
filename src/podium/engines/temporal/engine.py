"""The engine for `podium run --engine temporal`: starts a run on a Temporal server and follows it in the store."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from temporalio.client import Client
from temporalio.service import RPCError

from podium.access.actors import Actor
from podium.engines.control import idle_because
from podium.engines.creation import create_run
from podium.engines.hosting import OtherRules
from podium.engines.parts import LocalParts
from podium.engines.temporal import client as temporal
from podium.engines.temporal.client import ExecutionExists
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.names import Queues, workflow_id
from podium.errors import ConcurrencyLimit, PodiumError, StoreUnavailable
from podium.log.engines import TEMPORAL, TemporalRunRef
from podium.log.events import EventRecord, EventType, encode_payload
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import RUN_ENDS
from podium.machine import RULES_VERSION, Machine
from podium.machine.answers import failure_payload
from podium.machine.obligations import Obligation
from podium.plan.capabilities import check_capabilities
from podium.plan.plan import Plan
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded, RunRequest
from podium.runtime.ends import ended_by, last_end
from podium.runtime.holders import workflow_owner
from podium.runtime.lock import RunLocked
from podium.runtime.outages import Outages
from podium.runtime.plan_approval import wait_for_approval
from podium.runtime.plan_file import load_plan
from podium.runtime.preflight import Readiness
from podium.runtime.reopening import Reopening, RunEndedAlready
from podium.runtime.replaying import replayed
from podium.runtime.signalling import append_while_open, stop_body
from podium.runtime.slots import CONCURRENCY_LIMIT
from podium.runtime.spilling import whole
from podium.runtime.writing import new_event

_LOOK_SECONDS: Final = 0.1


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
            await self._reopen(reopening, run)
        await self._start(client, run, queues)
        control = _Control(self._parts, run_id)
        if on_driving is not None:
            on_driving(control)
        following = _Following(self._parts, run_id, observers, on_waiting, notify)
        try:
            if run.waits_for_approval and await self._is_left(run_id, on_waiting, notify, no_wait=no_wait):
                return RunEnded(run_id, LEFT, RESUMABLE, "waiting", "")
            machine = await following.machine(run)
            while (end := await following.read(machine)) is None:
                reason = idle_because(machine.obligations()) if no_wait else None
                if reason is not None:
                    return RunEnded(run_id, LEFT, RESUMABLE, reason, "")
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await control.close()
        return _ended(end)

    async def _is_left(
        self,
        run_id: RunId,
        on_waiting: Callable[[Sequence[Obligation]], None] | None,
        notify: Callable[[Notice], None] | None,
        *,
        no_wait: bool,
    ) -> bool:
        """Wait for the approval of the plan; the execution learns of it from the signal."""
        store = self._parts.store
        look = partial(self._parts.patiently, run_id, partial(store.get_run, run_id), notify)
        return await wait_for_approval(store, look, on_waiting=on_waiting, no_wait=no_wait) == "left"

    async def _start(self, client: Client, run: Run, queues: Queues) -> None:
        try:
            with self._asking():
                await temporal.start_execution(client, run.identity, queues)
        except PodiumError as error:
            if run.identity.run_id in self._created:
                await self._end_unstarted(run, error)
            raise

    async def _end_unstarted(self, run: Run, error: PodiumError) -> None:
        """If the server has started it all the same, its execution finds that the run is over."""
        run_id = run.identity.run_id
        lease = await self._parts.store.claim(run_id, owner=_owner(run_id), ttl=None)
        if lease is not None:
            payload = failure_payload(1, error.code, str(error), reason="not started")
            write = new_event(run.identity, EventType.RUN_FAILED, self._parts.now(), encode_payload(payload))
            await self._parts.store.append(run_id, [write], fence=lease.fence)
            await self._parts.store.release(lease)

    async def _reopen(self, reopening: Reopening, run: Run) -> None:
        """Recorded here, so that it is certain before an execution starts for it."""
        run_id = run.identity.run_id
        lease = await self._parts.store.claim(run_id, owner=_owner(run_id), ttl=None)
        if lease is None:
            raise RunLocked(run_id, None)
        await reopening.carry_out(lease)


def _owner(run_id: RunId) -> str:
    return workflow_owner(TEMPORAL, workflow_id(run_id))


def _ended(end: EventRecord) -> RunEnded:
    ended = ended_by(end)
    if ended.event_type == EventType.RUN_CANCELLED and ended.reason == CONCURRENCY_LIMIT:
        raise ConcurrencyLimit(
            f"run {ended.run_id!r} was not started: other runs use its concurrency key; start it again when they have "
            "ended, or set `on_conflict: queue` to wait for them"
        )
    return ended


class _Following:
    """Shows what is in the log of a run."""

    def __init__(
        self,
        parts: LocalParts,
        run_id: RunId,
        observers: Sequence[Observer],
        on_waiting: Callable[[Sequence[Obligation]], None] | None,
        notify: Callable[[Notice], None] | None,
    ) -> None:
        self._parts = parts
        self._run_id = run_id
        self._observers = observers
        self._on_waiting = on_waiting
        # The run continues without this process, so a store that is away for a while is no reason to leave it.
        self._outages = Outages(run_id, parts.now, budget=parts.outage, notify=notify)

    async def machine(self, run: Run) -> Machine:
        """As the run is now; of a run that has started, only what comes from now on is shown."""
        plan = await load_plan(self._parts.store, self._parts.directory(self._run_id), run)
        if run.head <= 1:
            return Machine(plan)
        return await replayed(self._parts.store, self._run_id, plan, self._parts.values(self._run_id))

    async def read(self, machine: Machine) -> EventRecord | None:
        """What is new in the log; the run's last event if it is over."""
        values = self._parts.values(self._run_id)
        if _is_over(machine):
            return await last_end(self._parts.store, await self._parts.store.get_run(self._run_id))
        records = await self._new_records(machine.last_seq)
        if not records:
            return None
        for observer in self._observers:
            observer(records)
        for record in records:
            machine.advance(await whole(record, values))
        if self._on_waiting is not None:
            self._on_waiting(machine.obligations())
        ends = [record for record in records if record.event_type in RUN_ENDS]
        return ends[-1] if _is_over(machine) else None

    async def _new_records(self, after: int) -> list[EventRecord]:
        read = partial(self._parts.store.read, self._run_id, after=after)
        try:
            return await read()
        except StoreUnavailable as error:
            return await self._outages.outlast(error, read)


def _is_over(machine: Machine) -> bool:
    return machine.terminal


class _Control:
    """The `Driving` of a caller: what it asks for is stored, and a worker sees to it."""

    def __init__(self, parts: LocalParts, run_id: RunId) -> None:
        self._parts = parts
        self._run_id = run_id
        self._asking: list[asyncio.Task[None]] = []

    def cancel(self, reason: str, *, force: bool = False, by: Actor | None = None) -> None:
        self._asking.append(asyncio.ensure_future(self._cancel(stop_body(reason, by, force=force))))

    async def _cancel(self, payload: dict[str, Any]) -> None:
        run = await self._parts.store.get_run(self._run_id)
        write = new_event(
            run.identity,
            EventType.SIGNAL_ACCEPTED,
            self._parts.now(),
            encode_payload(payload),
            subject=payload["signalId"],
        )
        await append_while_open(self._parts.store, self._run_id, write)

    async def close(self) -> None:
        await asyncio.gather(*self._asking, return_exceptions=True)
