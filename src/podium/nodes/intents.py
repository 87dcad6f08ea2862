"""Intents: what a reducer requests for an event, discriminated by `kind`. Effects execute them."""

from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from podium.ports.catalog import NodeDescription


class ModelConsulPayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    service_name: str
    tags: tuple[str, ...] = ()
    meta: dict[str, str] = {}


class ModelConsulRegistrationIntent(BaseModel):
    """For the service catalog."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["consul"] = "consul"
    operation: Literal["register", "deregister"]
    node_id: UUID
    correlation_id: UUID
    payload: ModelConsulPayload


class ModelPostgresPayload(NodeDescription):
    """The row of the node, field by field."""


class ModelPostgresUpsertIntent(BaseModel):
    """For the registration table. `retire_registration` keeps the row and marks it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["postgres"] = "postgres"
    operation: Literal["upsert_registration", "retire_registration"]
    node_id: UUID
    correlation_id: UUID
    payload: ModelPostgresPayload


ModelIntent: TypeAlias = Annotated[
    ModelConsulRegistrationIntent | ModelPostgresUpsertIntent, Field(discriminator="kind")
]


def intent_name(intent: ModelConsulRegistrationIntent | ModelPostgresUpsertIntent) -> str:
    """Its name in contracts: `consul.register`."""
    return f"{intent.kind}.{intent.operation}"
