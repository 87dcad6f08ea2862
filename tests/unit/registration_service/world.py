"""The registration service with everything in memory, in virtual time: waiting takes none."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from podium.buses.memory import MemoryBus, MemorySource, MemoryTopics
from podium.catalogs.memory import MemoryServices, MemoryTable
from podium.engines.local import LocalEngine
from podium.engines.run_host import RunHost
from podium.log.ids import RunId
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.nodes.breaker import phase_of
from podium.nodes.registration.reading import CONTRACT, registration_config, registration_plan
from podium.nodes.registry import NodeRegistry
from podium.operations.parts import Parts
from podium.operations.registration.bus_time import BusTime
from podium.operations.registration.place import Place
from podium.operations.registration.pool_runs import PoolRuns, PoolView
from podium.operations.registration.serving import RegistrationService, ServeSettings, World
from podium.operations.registration.view import ServeView
from podium.plan.plan import NodeBreaker
from podium.ports.catalog import (
    CatalogUnavailable,
    DueNode,
    Projection,
    ProtocolProjectionReader,
    RegistrationTable,
    Service,
    ServiceCatalog,
    TableChange,
)
from podium.ports.engine import RunRequest
from podium.runtime.preflight import Readiness
from podium.runtime.tasks.node_runtime import NodeRuntime
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from tests.unit.node_runs.running import LoopClock

PLACE = Place("test", "demo", "default")
CONFIG = registration_config()
TOPICS = {one.event_type: PLACE.topic(one.topic) for one in CONFIG.consumed_events}


class View(ServeView):
    def __init__(self) -> None:
        self.dead_codes: list[str] = []
        self.alerts: list[str] = []
        self.troubles: list[str] = []
        self.back_again: list[str] = []
        self.is_ready = asyncio.Event()

    def ready(self) -> None:
        self.is_ready.set()

    def dead(self, topic: str, partition: int, offset: int, code: str) -> None:
        self.dead_codes.append(code)

    def alert(self, code: str, message: str) -> None:
        self.alerts.append(code)

    def trouble(self, subject: str, reason: str) -> None:
        self.troubles.append(f"{subject}: {reason}")

    def back(self, subject: str) -> None:
        self.back_again.append(subject)


class Services(MemoryServices):
    is_down = False
    # How many calls are under way, and at most were.
    open_calls = most_calls = 0

    async def register(self, service: Service) -> None:
        self.open_calls += 1
        self.most_calls = max(self.most_calls, self.open_calls)
        await asyncio.sleep(0.01)
        self.open_calls -= 1
        if self.is_down:
            raise CatalogUnavailable("password=hunter2")
        await super().register(service)


class Table(MemoryTable):
    is_down = False
    renew_seconds = write_seconds = 0.0
    # Of rows that cannot be read.
    damaged: frozenset[UUID] = frozenset()

    async def read(self, node_id: UUID) -> Projection | None:
        self._check()
        if node_id in self.damaged:
            raise ValueError("hunter2")
        return await super().read(node_id)

    async def write(self, change: TableChange) -> Projection:
        self._check()
        await asyncio.sleep(self.write_seconds)
        return await super().write(change)

    async def due(self, now: Any, limit: int, after: DueNode | None = None) -> list[DueNode]:
        self._check()
        return await super().due(now, limit, after)

    async def renew(self, renewals: Any) -> int:
        self._check()
        await asyncio.sleep(self.renew_seconds)
        self.statements = getattr(self, "statements", 0) + 1
        return await super().renew(renewals)

    def _check(self) -> None:
        if self.is_down:
            raise CatalogUnavailable("postgresql://user:hunter2@db")


class Site:
    """What outlives a serving process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = LoopClock()
        self.store = MemoryStore(self.clock)
        self.topics = MemoryTopics()
        self.services, self.table = Services(), Table()
        for name in PLACE.topics(CONFIG):
            self.topics.topics[name] = []
        self.view = View()

    def service(self, **settings: Any) -> RegistrationService:
        """A new process."""
        registry = NodeRegistry(
            ports=lambda: {
                ServiceCatalog: self.services,
                RegistrationTable: self.table,
                ProtocolProjectionReader: self.table,
            }
        )
        time = BusTime(self.clock)
        runtime = NodeRuntime(registry, time)
        engine = LocalEngine(self.store, self.clock, self.folder, secrets={}, nodes=lambda: runtime)
        parts = Parts(
            self.store,
            self.clock,
            self.folder,
            lambda: engine,
            None,  # type: ignore[arg-type]
            lambda plan, workspace: Readiness((), ()),
            lambda text: None,
            is_owner=True,
        )
        plan = registration_plan()
        template = RunRequest(
            plan,
            source=CONTRACT.read_bytes(),
            workspace=self.folder,
            project_id=PLACE.namespace,
            environment_id=PLACE.env,
        )
        self.view = View()
        given = ServeSettings(PLACE, CONFIG, plan.metadata.plan_id, **settings)
        shown = PoolView(self.view)
        host = RunHost(engine._parts, pool=PLACE.pool, slots=given.slots, view=shown)
        world = World(
            parts,
            MemoryBus(topics=self.topics),
            {name: MemorySource(self.topics, topic, PLACE.group) for name, topic in TOPICS.items()},
            self.services,
            self.table,
            PoolRuns(parts, host, shown, template),
            lambda: {
                name: phase_of(runtime.breakers.state_of(name), NodeBreaker(), self.clock.elapsed())
                for name in runtime.breakers.services()
            },
            time,
        )
        return RegistrationService(world, given, self.view)

    def send(self, event: BaseModel | bytes, event_type: str | None = None, **headers: str) -> None:
        """`event_type`: the topic that it is sent to."""
        value = event if isinstance(event, bytes) else event.model_dump_json().encode()
        topic = TOPICS[event_type or type(event).__name__]
        self.topics.put(topic, None, value, tuple((name, text.encode()) for name, text in headers.items()))

    def published(self) -> list[str]:
        """Types, in any order."""
        names = [PLACE.topic(one.topic) for one in CONFIG.published_events]
        return [str(one.header("event_type")) for name in names for one in self.topics.topics[name]]

    async def has_published(self, event_type: str) -> bool:
        return event_type in self.published()

    def dead(self, event_type: str) -> list[str | None]:
        return [one.header("dead_code") for one in self.topics.topics[f"{TOPICS[event_type]}.dead"]]

    async def states(self) -> dict[str, int]:
        return (await self.table.summary()).states

    async def runs(self, *statuses: RunStatus) -> list[RunId]:
        page = await self.store.runs.page("default", RunQuery(statuses=frozenset(statuses), limit=200))
        return [run.identity.run_id for run in page.runs]

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 600) -> None:
        """In virtual time."""
        end = self.clock.elapsed() + seconds
        while not await holds():
            assert self.clock.elapsed() < end, (await self.states(), self.view.troubles, self.published())
            await asyncio.sleep(0.1)

    async def until_states(self, **states: int) -> None:
        async def holds() -> bool:
            return await self.states() == states

        await self.until(holds)


Work = Callable[[Site, RegistrationService], Awaitable[None]]


def serving(folder: Path, work: Work, **settings: Any) -> Site:
    """Do this while a service serves; then it is stopped."""

    async def whole() -> Site:
        site = Site(folder)
        await serve_during(site, work, **settings)
        return site

    return run_virtually(whole())


async def serve_during(site: Site, work: Work, *, kill: bool = False, **settings: Any) -> None:
    service = site.service(**settings)
    task = asyncio.create_task(service.serve())
    try:
        await work(site, service)
        if not kill:
            service.stop()
            await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def counted(names: list[str]) -> Counter[str]:
    return Counter(names)
