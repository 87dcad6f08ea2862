"""The steps that act: they receive the event, read the projection, execute intents, and publish the outcome."""

from typing import Any, Final

from podium.nodes.base import NodeEffect, operation
from podium.nodes.context import NodeContext
from podium.nodes.errors import ReducerError
from podium.nodes.intents import ModelConsulRegistrationIntent, ModelPostgresUpsertIntent, intent_name
from podium.nodes.registration.deciding import INTENTS
from podium.nodes.registration.events_out import RESULT, publications
from podium.nodes.registration.fsm import EVENT_OF
from podium.nodes.registration.models.model_intent_execution_result import ModelIntentExecutionResult
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.protocols import ProtocolEffect
from podium.nodes.registration.steps import (
    Aggregated,
    EffectInput,
    Executed,
    Known,
    Published,
    PublishInput,
    ReadInput,
    Received,
    ReceiveInput,
    Reduced,
)
from podium.ports.catalog import (
    NodeDescription,
    Projection,
    ProtocolProjectionReader,
    Registration,
    RegistrationTable,
    RevisionConflict,
    Service,
    ServiceCatalog,
    TableChange,
)

CONSUL: Final = "consul"
POSTGRES: Final = "postgres"
_POSTGRES_STEP: Final = "execute_postgres_registration"


class ReceiveIntrospection(NodeEffect):
    """Accepts the events for which the contract creates runs."""

    name = "receive_introspection"
    sections = ("consumed_events",)
    consumes = frozenset(
        {
            "NodeIntrospectionEvent",
            "RegistryRequestIntrospectionEvent",
            "NodeRegistrationAcked",
            "RuntimeTick",
            "NodeHeartbeatEvent",
        }
    )
    handling = {"RuntimeTick": "overdue", "NodeHeartbeatEvent": "batch"}  # noqa: RUF012  a constant

    @operation
    async def receive(self, data: ReceiveInput, context: NodeContext) -> Received:
        accepted = {one.event_type for one in data.config.consumed_events if one.handling != "batch"}
        if data.event.type not in accepted:
            raise ReducerError("EVENT_NOT_CONSUMED")
        if data.event.correlation_id not in (None, data.event.body.correlation_id):
            raise ReducerError("CORRELATION_ID_MISMATCH")
        return Received(event=data.event)


class ReadProjection(NodeEffect):
    name = "read_projection"
    service = POSTGRES

    def __init__(self, reader: ProtocolProjectionReader) -> None:
        self._reader = reader

    @operation
    async def read(self, data: ReadInput, context: NodeContext) -> Known:
        event = data.outputs.receive_introspection.event
        return Known(event=event, registration=await self._reader.read(event.body.node_id))


class NodeRegistryEffect(NodeEffect):
    """Executes the intents that the contract routes to its step. Each side has a breaker of its own."""

    name = "node_registry_effect"
    services = {"execute_consul": CONSUL, "execute_postgres": POSTGRES}  # noqa: RUF012  a constant
    executes = {  # noqa: RUF012  a constant
        "execute_consul": frozenset(one for one in INTENTS if one.startswith(f"{CONSUL}.")),
        "execute_postgres": frozenset(one for one in INTENTS if one.startswith(f"{POSTGRES}.")),
    }
    sections = ("intent_consumption",)
    protocols = (ProtocolEffect,)

    def __init__(self, services: ServiceCatalog, table: RegistrationTable) -> None:
        self._services = services
        self._table = table

    @operation
    async def execute_consul(self, data: EffectInput, context: NodeContext) -> Executed:
        return await self._execute(data, context)

    @operation
    async def execute_postgres(self, data: EffectInput, context: NodeContext) -> Executed:
        return await self._execute(data, context)

    async def _execute(self, data: EffectInput, context: NodeContext) -> Executed:
        reduced = data.outputs.compute_intents
        routed = {one.intent for one in data.config.intent_consumption.routes if one.step == context.step}
        results = [
            await self.execute_intent(intent, reduced.state, _change_id(context))
            for intent in reduced.intents
            if intent_name(intent) in routed
        ]
        return Executed(results=tuple(results))

    async def execute_intent(
        self,
        intent: ModelConsulRegistrationIntent | ModelPostgresUpsertIntent,
        state: ModelReducerState,
        change_id: str,
    ) -> ModelIntentExecutionResult:
        revision = None
        if isinstance(intent, ModelConsulRegistrationIntent):
            await self._consul(intent)
        else:
            revision = await self._postgres(intent, state, change_id)
        return ModelIntentExecutionResult(
            kind=intent.kind,
            operation=intent.operation,
            node_id=intent.node_id,
            correlation_id=intent.correlation_id,
            success=True,
            revision=revision,
        )

    async def _consul(self, intent: ModelConsulRegistrationIntent) -> None:
        if intent.operation == "deregister":
            await self._services.deregister(intent.node_id)
            return
        wanted = intent.payload
        await self._services.register(
            Service(node_id=intent.node_id, name=wanted.service_name, tags=wanted.tags, meta=wanted.meta)
        )

    async def _postgres(
        self, intent: ModelPostgresUpsertIntent, state: ModelReducerState, change_id: str
    ) -> int:
        """Both rows in one transaction. The projection is not settled yet: after a crash, the next tick
        repairs it.
        """
        row = state.registration
        if row is None:
            raise ReducerError("INTENT_WITHOUT_STATE")
        is_over = intent.operation == "retire_registration"
        node = NodeDescription(**dict(intent.payload))
        change = TableChange(
            change_id=change_id,
            projection=row.model_copy(update={"postgres_applied": True}),
            expected_revision=row.revision,
            registration=Registration(node=node, status="retired" if is_over else "registered"),
        )
        return (await self._table.write(change)).revision


class PublishOutcome(NodeEffect):
    """Stores the result of the run, then publishes one event for each state that was entered, and the result."""

    name = "publish_outcome"
    service = POSTGRES
    sections = ("published_events",)
    publishes = frozenset({*EVENT_OF.values(), RESULT})

    def __init__(self, table: RegistrationTable) -> None:
        self._table = table

    @operation
    async def publish(self, data: PublishInput, context: NodeContext) -> Published:
        done = data.outputs.aggregate_results
        try:
            row = await self._store(done, context)
        except RevisionConflict:
            done, row = await self._lost(done)
        topics = {one.event_type: one.topic for one in data.config.published_events}
        return Published(
            outcome=done.outcome,
            revision=row.revision if row is not None else None,
            # That of the contract: the graph has no nodes of another version.
            publishes=publications(done, row, topics, self.version),
        )

    async def _store(self, done: Aggregated, context: NodeContext) -> Projection | None:
        row = done.state.registration
        if row is None or row == done.reduced.known:
            return row
        return await self._table.write(
            TableChange(
                change_id=_change_id(context),
                projection=row,
                expected_revision=_expected_revision(done),
                may_follow=_change_id(context, _POSTGRES_STEP),
            )
        )

    async def _lost(self, done: Aggregated) -> tuple[Aggregated, Projection | None]:
        """Another change was first: this run's result is discarded, and both sides are applied again from the
        stored projection.
        """
        reduced = done.reduced
        await self._table.unsettle(reduced.node_id, reduced.now)
        values: dict[str, Any] = {"status": "failed", "code": RevisionConflict.code}
        outcome = done.outcome.model_copy(
            update={**values, "consul_applied": False, "postgres_applied": False}
        )
        state = done.state.model_copy(update={"entered": (), "code": RevisionConflict.code})
        lost = done.model_copy(update={"state": state, "outcome": outcome})
        return lost, await self._table.read(reduced.node_id)


def _expected_revision(done: Aggregated) -> int:
    stored = [one.revision for one in done.outcome.intent_results if one.revision is not None]
    return stored[-1] if stored else _revision(done.reduced)


def _revision(reduced: Reduced) -> int:
    return reduced.known.revision if reduced.known is not None else 0


def _change_id(context: NodeContext, step: str | None = None) -> str:
    return f"{context.run_id}/{step or context.step}"
