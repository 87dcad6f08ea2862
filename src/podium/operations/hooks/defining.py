"""Add, list and remove hooks."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from podium.errors import InvalidId, PodiumError
from podium.expressions.json_schema import InvalidSchema, check_schema
from podium.hooks.endpoint import DEFAULT_RATE, MAX_RATE, Endpoint, EndpointKind, Hook
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT, check_id
from podium.log.times import timestamp
from podium.operations.parts import Parts
from podium.operations.schedules.plans import published_plan
from podium.text import shortened

# Limited because the name and the id of a delivery form a request id.
_MAX_NAME: Final = 48


class InvalidHook(PodiumError):
    code = "HOOK_INVALID"


class HookNotFound(PodiumError):
    code = "HOOK_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"hook {shortened(name)!r} not found; `podium hook list` lists all hooks")


class HookExists(PodiumError):
    code = "HOOK_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a hook {shortened(name)!r} exists already, perhaps of another tenant; use another name"
        )


class HookOrder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`plan`: `id@version`, or the SHA-256 of a published plan. `secret`: the name of a secret of the server."""

    plan: str
    secret: str
    schema: dict[str, Any] | None = None
    body_input: str | None = None
    pool: str = "default"
    project: str = DEFAULT_PROJECT
    environment: str = DEFAULT_ENVIRONMENT
    rate: int = DEFAULT_RATE


class NamedHook(msgspec.Struct, frozen=True):
    name: str
    hook: Hook


async def add_hook(parts: Parts, tenant_id: str, name: str, order: HookOrder) -> NamedHook:
    """Raises `InvalidHook`, `HookExists`, `PlanNotPublished`, and what `Parts.require` raises."""
    await parts.require("hook.change", tenant_id)
    check_id("hook", name)
    if len(name) > _MAX_NAME:
        valid = f"at most {_MAX_NAME} characters"
        raise InvalidId(f"hook {shortened(name)!r} is too long: use {valid}", "hook", valid)
    kept = await published_plan(parts, tenant_id, order.plan)
    _check(order, kept.plan.workflow.inputs)
    hook = Hook(
        plan_id=kept.plan.metadata.plan_id,
        plan_version=kept.plan.metadata.plan_version,
        plan_sha256=kept.sha256,
        secret=order.secret,
        schema=order.schema,
        body_input=order.body_input,
        pool=order.pool,
        project_id=order.project,
        environment_id=order.environment,
        rate=order.rate,
        created_at=timestamp(parts.clock.now()),
        created_by=parts.access().actor.name,
    )
    endpoint = Endpoint(
        kind=EndpointKind.HOOK, tenant_id=tenant_id, name=name, body=msgspec.json.encode(hook)
    )
    if not await parts.store.add_endpoint(endpoint):
        raise HookExists(name)
    return NamedHook(name, hook)


def _check(order: HookOrder, inputs: Mapping[str, Any]) -> None:
    check_id("pool", order.pool)
    if not order.secret:
        raise InvalidHook("a hook needs the name of the secret that deliveries are signed with", "secret")
    if not 1 <= order.rate <= MAX_RATE:
        raise InvalidHook(
            f"rate {order.rate} is not between 1 and {MAX_RATE} deliveries a minute",
            "rate",
            f"a whole number from 1 to {MAX_RATE}",
        )
    if order.body_input is not None and order.body_input not in inputs:
        raise InvalidHook(
            f"the plan has no input {shortened(order.body_input)!r} for the body of a delivery",
            "body_input",
            f"inputs: {', '.join(inputs)}" if inputs else "no inputs",
        )
    if order.schema is not None:
        try:
            check_schema(order.schema)
        except InvalidSchema as error:
            raise InvalidHook(f"the schema cannot be used: {error}", "schema", "a JSON Schema") from error


async def list_hooks(parts: Parts, tenant_id: str) -> list[NamedHook]:
    await parts.require("hook.view", tenant_id)
    found = await parts.store.list_endpoints(EndpointKind.HOOK, tenant_id)
    return [NamedHook(one.name, hook_of(one)) for one in found]


async def remove_hook(parts: Parts, tenant_id: str, name: str) -> None:
    """Raises `HookNotFound`."""
    await parts.require("hook.change", tenant_id)
    if not await parts.store.remove_endpoint(EndpointKind.HOOK, tenant_id, name):
        raise HookNotFound(name)


def hook_of(endpoint: Endpoint) -> Hook:
    return msgspec.json.decode(endpoint.body, type=Hook)
