"""Stored data of hooks, with which other systems start runs, and of webhooks, which receive the events of
runs.

Only the names of secrets are stored.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.times import Timestamp

DEFAULT_RATE: Final = 60
MAX_RATE: Final = 6_000


class EndpointKind(StrEnum):
    HOOK = "hook"
    WEBHOOK = "webhook"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """In the form that stores keep. `name` is unique among all tenants, because a delivery contains nothing
    else.
    """

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
    # A schema for the body of a delivery, in addition to the plan's declared inputs.
    schema: dict[str, Any] | None = None
    # The input that gets the whole body; None: the body is an object with the inputs.
    body_input: str | None = None
    pool: str = "default"
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    # Maximum deliveries per minute.
    rate: int = DEFAULT_RATE
    created_at: Timestamp
    created_by: str


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Receives events of the runs of its tenant, signed with its secret."""

    url: str
    # The name of the secret that deliveries are signed with.
    secret: str
    # Empty: all of them.
    event_types: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    created_at: Timestamp
    created_by: str
    # Since when no delivery has succeeded, and the error of the last one.
    failing_since: Timestamp | None = None
    error: str = ""
    # Set when it is disabled: it receives nothing more.
    disabled_at: Timestamp | None = None
