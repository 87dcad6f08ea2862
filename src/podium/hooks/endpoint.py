"""What is stored of hooks, by which other systems start runs. Secrets are named, not kept."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.times import Timestamp

DEFAULT_RATE: Final = 60
MAX_RATE: Final = 6_000


class EndpointKind(StrEnum):
    HOOK = "hook"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """As stores keep it. `name` is unique among all tenants: a delivery names nothing else."""

    kind: EndpointKind
    tenant_id: str
    name: str
    body: bytes


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Starts a run of a published plan for each delivery that is signed with its secret."""

    plan_id: str
    plan_version: str
    plan_sha256: str
    # The name of the secret that deliveries are signed with.
    secret: str
    # What the body of a delivery must be, besides what the inputs of the plan ask for.
    schema: dict[str, Any] | None = None
    # The input that gets the whole body; None: the body is an object with the inputs.
    body_input: str | None = None
    pool: str = "default"
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    # Deliveries a minute.
    rate: int = DEFAULT_RATE
    created_at: Timestamp
    created_by: str
