"""The desired state of a registration on each side, as intents: registered while it is active, removed when
it has ended.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias
from uuid import UUID

from podium.nodes.intents import (
    ModelConsulPayload,
    ModelConsulRegistrationIntent,
    ModelPostgresPayload,
    ModelPostgresUpsertIntent,
)
from podium.nodes.registration.fsm import TERMINAL, State
from podium.nodes.registration.refusals import endpoint_key
from podium.ports.catalog import NodeDescription, Projection

Side: TypeAlias = Literal["consul", "postgres"]
Intent: TypeAlias = ModelConsulRegistrationIntent | ModelPostgresUpsertIntent
BOTH: Final[tuple[Side, ...]] = ("consul", "postgres")


def wanted_intents(row: Projection, correlation_id: UUID, sides: Iterable[Side]) -> tuple[Intent, ...]:
    is_over = State(row.state) in TERMINAL
    return tuple(
        _consul(row.node, correlation_id, is_over=is_over)
        if side == "consul"
        else _postgres(row.node, correlation_id, is_over=is_over)
        for side in sides
    )


def missing_sides(row: Projection) -> tuple[Side, ...]:
    return tuple(side for side in BOTH if not getattr(row, f"{side}_applied"))


def _consul(node: NodeDescription, correlation_id: UUID, *, is_over: bool) -> ModelConsulRegistrationIntent:
    facts = {
        "node_id": str(node.node_id),
        "node_version": node.node_version,
        "epoch": str(node.epoch) if node.epoch is not None else None,
        "node_role": node.node_role,
        "network_id": node.network_id,
        "deployment_id": node.deployment_id,
    }
    meta = {name: value for name, value in facts.items() if value is not None}
    meta |= {endpoint_key(name): url for name, url in node.endpoints.items()}
    return ModelConsulRegistrationIntent(
        operation="deregister" if is_over else "register",
        node_id=node.node_id,
        correlation_id=correlation_id,
        payload=ModelConsulPayload(
            service_name=f"onex-{node.node_type}", tags=(f"version-{node.node_version}",), meta=meta
        ),
    )


def _postgres(node: NodeDescription, correlation_id: UUID, *, is_over: bool) -> ModelPostgresUpsertIntent:
    return ModelPostgresUpsertIntent(
        operation="retire_registration" if is_over else "upsert_registration",
        node_id=node.node_id,
        correlation_id=correlation_id,
        payload=ModelPostgresPayload(**dict(node)),
    )
