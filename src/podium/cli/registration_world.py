"""The real parts of the registration service: bus, catalogs, nodes and runs, opened and closed around the work."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from podium.cli.hints import given_runs, print_notice
from podium.nodes.breaker import phase_of
from podium.nodes.registration.effects import CONSUL, POSTGRES
from podium.nodes.registration.models.model_orchestrator_config import ModelOrchestratorConfig
from podium.operations.parts import Parts
from podium.operations.registration.bus_time import BusTime
from podium.operations.registration.place import Place
from podium.operations.registration.pool_runs import PoolRuns, PoolView
from podium.operations.registration.serving import World
from podium.operations.registration.starting_up import check_allowed, check_topics
from podium.operations.registration.view import ServeView
from podium.plan.plan import Node, NodeBreaker, Plan
from podium.ports.catalog import ProtocolProjectionReader, RegistrationTable, ServiceCatalog
from podium.ports.engine import RunRequest
from podium.ports.store import Store
from podium.ports.telemetry import Telemetry
from podium.runtime.tasks.node_runtime import NodeRuntime
from podium.wiring.buses import open_message_bus, open_source, open_topics
from podium.wiring.catalogs import open_registration_table, open_service_catalog
from podium.wiring.engines import run_host
from podium.wiring.node_ports import MEMORY
from podium.wiring.nodes import nodes_with_ports
from podium.wiring.stores import runs_folder, system_clock
from podium.wiring.use_cases import use_case_parts


@dataclass(frozen=True, slots=True)
class Addresses:
    bus: str
    consul: str | None
    table: str | None
    # Schema of the tables; None: the default one.
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    plan: Plan
    config: ModelOrchestratorConfig
    source: bytes


@asynccontextmanager
async def opened_services(addresses: Addresses, place: Place) -> AsyncIterator[ServiceCatalog]:
    if addresses.consul == MEMORY:
        from podium.catalogs.memory import MemoryServices

        yield MemoryServices()
        return
    services = await open_service_catalog(addresses.consul, place.env, place.namespace)
    try:
        yield services
    finally:
        await services.close()


@asynccontextmanager
async def opened_table(
    addresses: Addresses, place: Place, *, may_claim: bool = False
) -> AsyncIterator[RegistrationTable]:
    """`may_claim`: tables without an owner become those of the place."""
    if addresses.table == MEMORY:
        from podium.catalogs.memory import MemoryTable

        yield MemoryTable()
        return
    table = await open_registration_table(
        addresses.table, schema=addresses.schema, owner=place.owner, may_claim=may_claim
    )
    try:
        yield table
    finally:
        await table.close()


@asynccontextmanager
async def opened_world(
    store: Store,
    addresses: Addresses,
    place: Place,
    contract: Contract,
    *,
    slots: int,
    create_topics: bool,
    view: ServeView,
    telemetry: Telemetry,
) -> AsyncIterator[World]:
    """Raises errors of the configuration, and of unavailable services."""
    topics = open_topics(addresses.bus)
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(opened_services(addresses, place))
        table = await stack.enter_async_context(opened_table(addresses, place, may_claim=True))
        time = BusTime(system_clock())
        runtime = nodes_with_ports(
            {ServiceCatalog: services, RegistrationTable: table, ProtocolProjectionReader: table}, time
        )
        parts = use_case_parts(store, runs_folder(given_runs()), print_notice, nodes=lambda: runtime)
        await check_allowed(parts, place)
        await check_topics(topics, place, contract.config, create=create_topics)
        bus = await open_message_bus(addresses.bus)
        stack.push_async_callback(bus.close)
        yield World(
            parts,
            bus,
            {
                one.event_type: open_source(addresses.bus, place.topic(one.topic), place.group)
                for one in contract.config.consumed_events
            },
            services,
            table,
            _runs(store, parts, place, contract, slots, view, runtime, telemetry),
            lambda: _breakers(runtime, contract.plan),
            time,
            telemetry,
        )


def _runs(
    store: Store,
    parts: Parts,
    place: Place,
    contract: Contract,
    slots: int,
    view: ServeView,
    runtime: NodeRuntime,
    telemetry: Telemetry,
) -> PoolRuns:
    template = RunRequest(
        contract.plan,
        source=contract.source,
        workspace=Path.cwd(),
        tenant_id=place.tenant_id,
        project_id=place.namespace,
        environment_id=place.env,
    )
    shown = PoolView(view)
    host = run_host(
        store,
        parts.runs,
        pool=place.pool,
        slots=slots,
        view=shown,
        nodes=lambda: runtime,
        telemetry=telemetry,
    )
    return PoolRuns(parts, host, shown, template)


def _breakers(runtime: NodeRuntime, plan: Plan) -> Mapping[str, str]:
    settings = _breaker_of(plan)
    if settings is None:
        return {}
    now = runtime.clock.elapsed()
    known = runtime.breakers
    return {name: phase_of(known.state_of(name), settings, now) for name in (CONSUL, POSTGRES)}


def _breaker_of(plan: Plan) -> NodeBreaker | None:
    """A contract has one setting for all of its effects."""
    bodies = (step.body for step in plan.workflow.block.steps)
    return next((one.breaker for one in bodies if isinstance(one, Node) and one.breaker is not None), None)
