"""A run of Conductor in a real store, workers for it, and a server that only remembers what it is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from podium.engines.conductor.answers import Execution, Summary, Task
from podium.engines.conductor.executions import Executions
from podium.engines.conductor.folding import FoldedRuns
from podium.engines.conductor.keeping import KeptRuns
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.site import HELD_SECONDS, Site, UnknownRuns
from podium.engines.conductor.slots import Slots
from podium.engines.creation import create_run
from podium.engines.errors import EngineUnavailable
from podium.engines.hosting import prepare_for_worker
from podium.engines.opening import Opening
from podium.log.engines import CONDUCTOR, ConductorRunRef
from podium.log.events import EventType, encode_payload
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.operations.workflows import load_workflow
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.runtime.attempts import Attempts
from podium.runtime.hosted_runs import HostedRuns
from podium.runtime.writing import new_event
from podium.stores.sqlite import SqliteStore
from tests.unit.runtime.working import local_parts

R1 = RunId("r1")
TASK = Task("task-1", "execution-1", "IN_PROGRESS", input_data={"order": {"runId": "r1"}})
WORKFLOW = b'{"version": "2.0", "name": "w", "steps": [{"name": "Q", "approval": {"message": "Continue?"}}]}'
NOW = timestamp(datetime(2030, 1, 1, tzinfo=UTC))
DOMAIN = Domain("q.r1@here", "here")
NAMES = Names.of_store("0" * 32)

Hook = Callable[[], Awaitable[None]]


class Server:
    """A client of a server with one execution; a hook is called while the server is told or asked."""

    def __init__(self) -> None:
        self.status = "RUNNING"
        self.reason = ""
        self.on_search: Hook | None = None
        self.updates: list[tuple[str, int]] = []
        self.retried: list[str] = []
        self.on_give_back: Hook | None = None
        self.on_look: Hook | None = None
        # It takes no change of the status.
        self.is_stuck = False
        # A heartbeat is on its way for so long, whatever becomes of its sender.
        self.heartbeat_seconds = 0.0
        self.has_heartbeat = asyncio.Event()

    @property
    def given_back(self) -> list[tuple[str, int]]:
        """Without heartbeats: on a busy machine there may be some."""
        return [one for one in self.updates if one[1] != HELD_SECONDS]

    async def update(self, task: Task, status: str, *, callback_after: int = 0, **_: Any) -> bool:
        hook, self.on_give_back = self.on_give_back, None
        if hook is not None:
            await hook()
        if callback_after == HELD_SECONDS:
            self.has_heartbeat.set()
            await asyncio.shield(asyncio.create_task(self._take_heartbeat()))
        else:
            self.updates.append((status, callback_after))
        return True

    async def _take_heartbeat(self) -> None:
        await asyncio.sleep(self.heartbeat_seconds)
        self.updates.append(("IN_PROGRESS", HELD_SECONDS))

    async def pause(self, _execution: str) -> bool:
        return self._set("PAUSED")

    async def resume(self, _execution: str) -> bool:
        return self._set("RUNNING")

    def _set(self, status: str) -> bool:
        if self.is_stuck:
            raise EngineUnavailable("away")
        self.status = status
        return True

    async def execution(self, execution: str, *, tasks: bool = False) -> Execution:
        hook, self.on_look = self.on_look, None
        if hook is not None:
            await hook()
        task = Task("task-1", execution, "SCHEDULED")
        return Execution(execution, self.status, tasks=(task,) if tasks else ())

    async def executions(self, executions: Sequence[str]) -> dict[str, Summary]:
        hook, self.on_search = self.on_search, None
        if hook is not None:
            await hook()
        return {one: Summary(one, self.status, reason_for_incompletion=self.reason) for one in executions}

    async def correlated(self, *_: Any, **__: Any) -> list[Execution]:
        domains = DOMAIN.tasks(NAMES)
        return [Execution("execution-1", self.status, input={"runId": "r1"}, task_to_domain=domains)]

    async def retry(self, execution: str) -> bool:
        self.retried.append(execution)
        return True

    async def log(self, task_id: str, line: str) -> None:
        pass


class HookedStore:
    """Calls something before a lease is taken for as long as the run waits. `asked`: whose leases were looked at."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.on_park: Hook | None = None
        self.asked: list[RunId] = []

    async def held_lease(self, run_id: RunId) -> Any:
        self.asked.append(run_id)
        return await self._store.held_lease(run_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, run_id: RunId, *, ttl: timedelta | None, **named: Any) -> Any:
        hook = self.on_park if ttl is None else None
        if hook is not None:
            self.on_park = None
            await hook()
        return await self._store.claim(run_id, ttl=ttl, **named)


class Place:
    def __init__(self, store: HookedStore, folder: Path, plan: Plan) -> None:
        self.store = store
        self.server = Server()
        self.signals: list[tuple[str, str]] = []
        self._folder = folder
        self._plan = plan

    def site(self) -> Site:
        parts: Any = local_parts(self.store, self._folder)
        client: Any = self.server
        hosted = HostedRuns(prepare_for_worker(parts))

        async def plan_of(*_: Any) -> Plan:
            return self._plan

        async def signal(_run: Run, kind: str, _id: str, reason: str) -> bool:
            self.signals.append((kind, reason))
            return True

        return Site(
            parts,
            client,
            Executions(client, NAMES),
            DOMAIN,
            Opening(parts, plan_of, CONDUCTOR),
            Attempts(parts, hosted, replaces=False),
            FoldedRuns(parts, hosted),
            Slots(1),
            signal,
            lambda _: None,
            lambda work: work.close(),
            UnknownRuns(),
        )

    def worker(self) -> KeptRuns:
        """As another process would be."""
        return KeptRuns(self.site())

    async def send_signal(self, kind: str = "RESUME", signal_id: str = "s1") -> None:
        run = await self.store.get_run(R1)
        payload = encode_payload({"signalId": signal_id, "signalType": kind, "payload": {}})
        event = new_event(run.identity, EventType.SIGNAL_ACCEPTED, NOW, payload, subject=signal_id)
        await self.store.append(R1, [event])

    async def until(self, event: str) -> None:
        while event not in await self.types():
            await asyncio.sleep(0.01)

    async def take_over(self) -> None:
        """As another worker does when the lease has lapsed."""
        held = await self.store.held_lease(R1)
        await self.store.release(held.lease)
        assert await self.store.claim(R1, owner="another", ttl=timedelta(seconds=60)) is not None

    async def holder(self) -> str:
        held = await self.store.held_lease(R1)
        return str(held.lease.owner) if held is not None else ""

    async def types(self) -> list[str]:
        return [record.event_type for record in await self.store.read(R1)]


@asynccontextmanager
async def place_of(folder: Path, workflow: bytes = WORKFLOW) -> AsyncIterator[Place]:
    (folder / "runs").mkdir()
    reading = load_workflow(workflow, "w.yaml", workspace=folder)
    assert reading.plan is not None
    store = await SqliteStore.open(folder / "runs" / "podium.db")
    try:
        place = Place(HookedStore(store), folder, reading.plan)
        engine = ConductorRunRef(conductor_url="http://server", workflow_id="podium-r1", run_id=R1)
        request = RunRequest(
            reading.plan,
            {},
            "r1",
            workspace=folder,
            engine=engine,
            source=workflow,
            engine_facts={CONDUCTOR: DOMAIN.facts()},
        )
        await create_run(local_parts(store, folder), request)
        yield place
    finally:
        await store.close()


def in_place(
    folder: Path, scenario: Callable[[Place], Awaitable[None]], *, workflow: bytes = WORKFLOW
) -> None:
    async def run() -> None:
        async with place_of(folder, workflow) as place:
            await asyncio.wait_for(scenario(place), 60)

    asyncio.run(run())
