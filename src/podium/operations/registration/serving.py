"""The registration service: all of its parts, until it is stopped."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from podium.errors import PodiumError
from podium.log.alerts import AlertCode
from podium.log.outbox import bus_filter
from podium.log.runs import RunQuery
from podium.nodes.breaker import PHASES
from podium.nodes.registration.models.model_orchestrator_config import ModelOrchestratorConfig
from podium.nodes.registration.protocols import ProtocolEventBus
from podium.nodes.sections import ConsumedEvent
from podium.operations.parts import Parts
from podium.operations.pruning import prune_runs
from podium.operations.receipts import Receipts
from podium.operations.registration.bus_time import BusTime
from podium.operations.registration.consuming import Handle, Patience, TopicConsumer, wait_for_stop
from podium.operations.registration.continuing import FailedRuns
from podium.operations.registration.counting import Counts
from podium.operations.registration.heartbeats import Heartbeats
from podium.operations.registration.open_runs import OpenRuns
from podium.operations.registration.place import Place
from podium.operations.registration.reconciling import DriftReport, reconcile
from podium.operations.registration.refusing import Refusals
from podium.operations.registration.relaying import RegistrationBus, RelayTroubles
from podium.operations.registration.runs import Runs
from podium.operations.registration.slots import Slots
from podium.operations.registration.starting import RunStarter
from podium.operations.registration.status import EVERY_SECONDS, ProcessStatus, StatusFile, process_status
from podium.operations.registration.ticks import HeartbeatsFirst, Ticker, Ticks
from podium.operations.registration.view import ServeView
from podium.ports.catalog import RegistrationTable, ServiceCatalog
from podium.ports.events_in import EventSource, Incoming
from podium.ports.metrics import BREAKER, DRIFT, HEARTBEATS, LAG, OPEN_RUNS, RECONCILED
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime import holders
from podium.runtime.alerts import Alerting
from podium.runtime.observed_bus import ObservedBus
from podium.runtime.relay import CLAIM_TTL, Relay

RECONCILE_SECONDS: Final = 60.0
CONTINUE_SECONDS: Final = 5.0
PRUNE_SECONDS: Final = 600.0
_PUBLISHING: Final = "publishing events"
# For the lines of the outbox that are at hand.
_STOP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class World:
    """The dependencies of the service."""

    parts: Parts
    bus: ProtocolEventBus
    # By event type.
    sources: Mapping[str, EventSource]
    services: ServiceCatalog
    table: RegistrationTable
    runs: Runs
    # Circuit breakers of services, by name: closed, open or half-open.
    breakers: Callable[[], Mapping[str, str]]
    # The clock of the nodes.
    time: BusTime
    telemetry: Telemetry = SILENT


@dataclass(frozen=True, slots=True)
class ServeSettings:
    place: Place
    config: ModelOrchestratorConfig
    plan_id: str
    slots: int = 256
    tick: float = 1.0
    keep: timedelta = timedelta(days=7)
    drain: float = 30.0
    claim_ttl: timedelta = CLAIM_TTL
    reconcile_every: float = RECONCILE_SECONDS


@dataclass(slots=True)
class RegistrationService:
    world: World
    settings: ServeSettings
    view: ServeView
    counts: Counts = field(default_factory=Counts)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _receipts: Receipts = field(init=False)

    def __post_init__(self) -> None:
        place = self.settings.place
        types = {place.topic(one.topic): one.event_type for one in self.settings.config.consumed_events}
        self._receipts = Receipts(self.world.telemetry, self.world.parts.clock, types)

    def stop(self) -> None:
        self.stopping.set()

    async def serve(self) -> None:
        """Runs until stopped; then runs in progress get time to end. Raises what `EventSource.open` raises."""
        world = self.world
        opened: list[EventSource] = []
        try:
            for source in world.sources.values():
                await source.open()
                opened.append(source)
            await self._serve()
        finally:
            await asyncio.gather(*(source.close() for source in opened), return_exceptions=True)

    async def _serve(self) -> None:
        status = StatusFile(self.world.parts.runs, self.settings.place)
        beside = [asyncio.create_task(one) for one in self._beside(status)]
        relay, relaying = self._start_relay()
        self.view.ready()
        try:
            await self._until_stopped(beside)
        finally:
            self.stopping.set()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*beside, return_exceptions=True)
            await self._stop_relay(relay, relaying)
            status.remove()

    async def _until_stopped(self, beside: list[asyncio.Task[None]]) -> None:
        """A task that ends early is a defect: the process ends with it, and another one continues."""
        stopped = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait([stopped, *beside], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        for task in beside:
            if task.done() and not self.stopping.is_set():
                task.result()

    # --- concurrent tasks ---------------------------------------------------------------------------

    def _beside(self, status: StatusFile) -> Iterator[Coroutine[Any, Any, None]]:
        world, settings = self.world, self.settings
        yield world.runs.serve(self.stopping, drain=settings.drain)
        yield from (consumer.run() for consumer in self._consumers())
        time = settings.config.time_injection
        topic = next(one for one in settings.config.consumed_events if one.event_type == time.source_event)
        patience = Patience("publishing ticks", self.stopping, self.view)
        clock = world.parts.clock
        ticker = Ticker(world.bus, settings.place.topic(topic.topic), settings.tick, clock, patience)
        yield ticker.run(self.stopping)
        failed = self._failed_runs()
        yield self._every(CONTINUE_SECONDS, "continuing failed runs", failed.continue_due)
        yield self._every(settings.reconcile_every, "comparing the catalogs", self._reconcile)
        yield self._every(PRUNE_SECONDS, "removing old runs", self._prune)
        yield self._every(EVERY_SECONDS, "writing the status", lambda: self._write_status(status))

    def _consumers(self) -> Iterator[TopicConsumer]:
        slots = Slots(self.world.runs, self.stopping)
        refusals = self._refusals()
        by_type = {one.event_type: one for one in self.settings.config.consumed_events}
        (batch,) = [one for one in by_type.values() if one.handling == "batch"]
        first = HeartbeatsFirst(
            self.world.sources[batch.event_type],
            self.settings.config.time_injection.liveness,
            self.world.parts.clock,
        )
        for event in by_type.values():
            yield self._consumer(event, slots, refusals, first)

    def _consumer(
        self, event: ConsumedEvent, slots: Slots, refusals: Refusals, first: HeartbeatsFirst
    ) -> TopicConsumer:
        world, source = self.world, self.world.sources[event.event_type]
        clock, counts, time = world.parts.clock, self.counts, self.settings.config.time_injection
        topic = self.settings.place.topic(event.topic)
        match event.handling:
            case "run":
                starter = RunStarter(
                    source,
                    event.event_type,
                    world.runs,
                    refusals,
                    clock,
                    counts,
                    self._receipts,
                    on_messages=world.time.saw,
                )
                return TopicConsumer(
                    source,
                    starter.handle,
                    self.stopping,
                    self.view,
                    topic=topic,
                    room=slots.reserve,
                    done=slots.release,
                )
            case "batch":
                heartbeats = Heartbeats(
                    source,
                    event.event_type,
                    world.table,
                    time,
                    refusals,
                    clock,
                    counts,
                    max_batch=event.max_batch,
                    on_outage=first.doubt,
                )
                handle = self._counted(heartbeats.handle)
                return TopicConsumer(source, handle, self.stopping, self.view, topic=topic)
            case "overdue":
                ticks = Ticks(
                    source,
                    world.table,
                    world.runs,
                    slots,
                    first,
                    time,
                    refusals,
                    clock,
                    counts,
                    max_batch=event.max_batch,
                    every=self.settings.tick,
                )
                handle = self._counted(ticks.handle)
                return TopicConsumer(source, handle, self.stopping, self.view, topic=topic)

    def _counted(self, handle: Handle) -> Handle:
        """For messages without runs of their own."""

        async def counted(messages: Sequence[Incoming]) -> None:
            renewed = self.counts.renewed
            await handle(messages)
            self._receipts.in_batch(messages)
            self.world.telemetry.count(HEARTBEATS, by=self.counts.renewed - renewed)

        return counted

    def _refusals(self) -> Refusals:
        parts = self.world.parts
        alerting = Alerting(parts.store, parts.clock)
        return Refusals(alerting, parts.clock, self.counts, self.view, self._receipts, self.world.telemetry)

    def _failed_runs(self) -> FailedRuns:
        parts, settings = self.world.parts, self.settings
        return FailedRuns(
            parts.store,
            parts.clock,
            settings.place,
            settings.plan_id,
            self.world.runs,
            self._refusals(),
            self.counts,
        )

    async def _stop_relay(self, relay: Relay, relaying: asyncio.Task[None]) -> None:
        """Deliver what the last runs published, if possible; the next process delivers the rest."""
        if not relay.is_bus_away:
            with suppress(PodiumError, TimeoutError):
                await asyncio.wait_for(relay.run_once(), self.settings.drain)
        relay.stop()
        # A bus that does not answer must not keep the process. What it was sent is sent again by the next one.
        await asyncio.wait({relaying}, timeout=_STOP_SECONDS)
        relaying.cancel()
        await asyncio.gather(relaying, return_exceptions=True)

    def _start_relay(self) -> tuple[Relay, asyncio.Task[None]]:
        parts, settings = self.world.parts, self.settings
        bus = RegistrationBus(self.world.bus, settings.place)
        telemetry, types = self.world.telemetry, [one.event_type for one in settings.config.published_events]
        relay = Relay(
            parts.store,
            ObservedBus(bus, telemetry, parts.clock, types) if telemetry.is_on else bus,
            Alerting(parts.store, parts.clock),
            owner=holders.new_owner(),
            claim_ttl=settings.claim_ttl,
            view=RelayTroubles(_PUBLISHING, self.view),
        )
        return relay, asyncio.create_task(self._relay(relay, bus))

    async def _relay(self, relay: Relay, bus: RegistrationBus) -> None:
        """Deliver what runs publish. If the store does not answer, waits for it."""
        only = bus_filter(plans=(self.settings.plan_id,), messages_only=True)
        patience = Patience(_PUBLISHING, self.stopping, self.view)
        while True:
            try:
                await self.world.parts.store.add_bus(bus.name, from_start=True, only=only)
                return await relay.run()
            except PodiumError as error:
                await patience.after(error)
                if self.stopping.is_set():
                    return None

    # --- periodic tasks -----------------------------------------------------------------------------

    async def _every(self, seconds: float, subject: str, work: Callable[[], Awaitable[None]]) -> None:
        patience = Patience(subject, self.stopping, self.view)
        while not self.stopping.is_set():
            try:
                await work()
            except (PodiumError, OSError) as error:
                await patience.after(error)
                continue
            patience.over()
            await wait_for_stop(self.stopping, seconds)

    async def _reconcile(self) -> None:
        world, now = self.world, self.world.parts.clock.now()
        before = world.parts.clock.elapsed()
        runs = OpenRuns(world.parts.store, self.settings.place)
        report = await reconcile(world.services, world.table, now, runs.has)
        world.telemetry.observe(RECONCILED, value=world.parts.clock.elapsed() - before)
        for kind, count in report.kinds.items():
            world.telemetry.count(DRIFT, kind, by=count)
        self.counts.drift.clear()
        self.counts.drift.update(report.kinds)
        self.counts.compared_at = now
        if report.total:
            self._refusals().alert(AlertCode.REGISTRATION_DRIFT, "REGISTRATION_DRIFT", describe_drift(report))

    async def _prune(self) -> None:
        parts, settings = self.world.parts, self.settings
        query = RunQuery(
            plan_id=settings.plan_id,
            project_id=settings.place.namespace,
            environment_id=settings.place.env,
        )
        pruned = prune_runs(
            parts.store,
            parts.clock,
            settings.place.tenant_id,
            older_than=settings.keep,
            runs=parts.runs,
            bucket=parts.bucket,
            among=query,
        )
        async for _ in pruned:
            if self.stopping.is_set():
                return

    async def _write_status(self, file: StatusFile) -> None:
        world = self.world
        lag = {name: await _lag(source) for name, source in world.sources.items()}
        status = process_status(
            self.counts,
            world.parts.clock.now(),
            slots=self.settings.slots,
            free=world.runs.free,
            lag=lag,
            breakers=world.breakers(),
        )
        file.write(status)
        show_status(world.telemetry, status)


def show_status(telemetry: Telemetry, status: ProcessStatus) -> None:
    telemetry.set(OPEN_RUNS, value=status.open_runs)
    for event_type, lag in status.lag.items():
        telemetry.set(LAG, event_type, value=float("nan") if lag is None else lag)
    for service, state in status.breakers.items():
        for one in PHASES:
            telemetry.set(BREAKER, service, one, value=float(one == state))


async def _lag(source: EventSource) -> int | None:
    try:
        return await source.lag()
    except PodiumError:
        return None


def describe_drift(report: DriftReport) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    more = " and more" if report.total > len(report.nodes) else ""
    return f"the catalogs differed from the projection: {kinds}; nodes {', '.join(report.nodes)}{more}"
