"""Values for the tests of the registration workflow."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from podium.nodes.registration.intake import NodeHeartbeatEvent
from podium.nodes.registration.models.model_orchestrator_config import ReducerRules, TimeInjection, Timeouts
from podium.nodes.registration.models.model_orchestrator_input import (
    NodeIntrospectionEvent,
    NodeOverdue,
    NodeRegistrationAcked,
    RegistryRequestIntrospectionEvent,
)
from podium.nodes.registration.reducer import RegistrationReducer

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TIME = TimeInjection(
    source_event="RuntimeTick",
    field="now",
    timeouts_ms=Timeouts(ack=30_000, liveness=90_000, retry=5_000),
)
REDUCER = RegistrationReducer(ReducerRules(), TIME)


def node_id(number: int = 1) -> UUID:
    return UUID(int=number)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def introspection(number: int = 1, *, seconds: float = 0, **fields: Any) -> NodeIntrospectionEvent:
    values: dict[str, Any] = {
        "node_id": node_id(number),
        "node_type": "effect",
        "node_version": "1.0.0",
        "endpoints": {"health": "http://node:8080/health"},
        "correlation_id": UUID(int=1000 + number),
        "timestamp": at(seconds),
    }
    return NodeIntrospectionEvent.model_validate(values | fields)


def ack(number: int = 1, *, seconds: float = 0, epoch: int | None = None) -> NodeRegistrationAcked:
    return NodeRegistrationAcked(
        node_id=node_id(number), correlation_id=UUID(int=2000 + number), epoch=epoch, timestamp=at(seconds)
    )


def request(number: int = 1, *, seconds: float = 0) -> RegistryRequestIntrospectionEvent:
    return RegistryRequestIntrospectionEvent(
        node_id=node_id(number), correlation_id=UUID(int=3000 + number), timestamp=at(seconds)
    )


def overdue(number: int = 1, *, seconds: float) -> NodeOverdue:
    return NodeOverdue(
        node_id=node_id(number), correlation_id=UUID(int=4000), now=at(seconds), deadline=at(seconds)
    )


def heartbeat(number: int = 1, *, seconds: float, epoch: int | None = None) -> NodeHeartbeatEvent:
    return NodeHeartbeatEvent(node_id=node_id(number), epoch=epoch, timestamp=at(seconds))
