"""A delivery to a hook: whether it is authentic, new and permitted now, and the run that it starts.

The sender is identified by the signature only. A sender that cannot sign learns nothing, not even which hooks
exist.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from podium.access.actors import Actor, Method
from podium.access.deciding import OwnerAuthoriser
from podium.errors import InvalidId, PodiumError
from podium.expressions.json_schema import schema_problem
from podium.hooks.endpoint import Endpoint, EndpointKind, Hook
from podium.hooks.signing import MIN_SECRET_BYTES, TOLERANCE_SECONDS, is_recent, is_signed
from podium.log.ids import RunId, check_id, is_id
from podium.log.times import later, timestamp
from podium.operations.access import Access
from podium.operations.hooks.defining import hook_of
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.schedules.plans import published_plan
from podium.operations.start import prepared_request
from podium.ports.engine import RunRequest
from podium.ports.log_fields import about
from podium.runtime.plan_file import PLAN, WORKFLOW
from podium.text import without_credentials

# Of a tenant, by name.
SecretsOf = Callable[[str], Mapping[str, str]]
_MAX_DELIVERY: Final = 72
_MINUTE: Final = 60.0
# For a hook that does not exist, so that the same work is done.
_NO_SECRET: Final = bytes(32)
_LOG: Final = logging.getLogger(__name__)


class HookRefused(PodiumError):
    """The same answer for an unknown hook, a wrong signature and a time that is too far off."""

    code = "HOOK_REFUSED"

    def __init__(self) -> None:
        super().__init__(
            "the delivery is not accepted: check its address, its signature and the clock of the sender"
        )


class HookReplayed(PodiumError):
    code = "HOOK_REPLAYED"

    def __init__(self, delivery_id: str) -> None:
        super().__init__(f"delivery {delivery_id!r} was accepted before; nothing was started")


class HookRateLimited(PodiumError):
    code = "HOOK_RATE_LIMITED"


class InvalidDelivery(PodiumError):
    code = "HOOK_DELIVERY_INVALID"


class Delivery(msgspec.Struct, frozen=True):
    delivery_id: str
    time: str
    signature: str
    body: bytes


class HookRates:
    """How many deliveries for each hook this process has accepted in the current minute."""

    def __init__(self) -> None:
        self._minutes: dict[str, tuple[int, int]] = {}

    def take(self, name: str, rate: int, elapsed: float) -> None:
        """Raises `HookRateLimited`."""
        minute = int(elapsed // _MINUTE)
        since, count = self._minutes.get(name, (minute, 0))
        count = count if since == minute else 0
        if count >= rate:
            raise HookRateLimited(f"hook {name!r} takes {rate} deliveries a minute; send it again later")
        self._minutes[name] = (minute, count + 1)


async def deliver(
    parts: Parts,
    secrets: SecretsOf,
    rates: HookRates,
    name: str,
    delivery: Delivery,
    decode: Callable[[bytes], Any],
) -> RunId:
    """Start the run of a delivery. `secrets`: of a tenant, by name. `decode`: the body as JSON.

    Raises the errors above, `InvalidInput`, and what creating a run raises.
    """
    endpoint = await parts.store.find_endpoint(EndpointKind.HOOK, name) if is_id(name) else None
    hook = hook_of(endpoint) if endpoint is not None else None
    tenant_id = endpoint.tenant_id if endpoint is not None else ""
    secret = await asyncio.to_thread(_secret, secrets, tenant_id, name, hook)
    is_genuine = is_signed(secret, delivery.delivery_id, delivery.time, delivery.body, delivery.signature)
    is_now = is_recent(delivery.time, parts.clock.now().timestamp())
    if endpoint is None or hook is None or not (is_genuine and is_now and len(secret) >= MIN_SECRET_BYTES):
        raise HookRefused
    _check_delivery_id(delivery.delivery_id)
    # Whoever repeats an overheard delivery must not use up the rate of the sender.
    if await parts.store.has_delivery(endpoint.name, delivery.delivery_id):
        raise HookReplayed(delivery.delivery_id)
    rates.take(name, hook.rate, parts.clock.elapsed())
    return await _start(parts, endpoint, hook, delivery, _inputs(hook, decode(delivery.body)))


def _secret(secrets: SecretsOf, tenant_id: str, name: str, hook: Hook | None) -> bytes:
    """A source may take long to answer. A secret that cannot be found matches no signature; senders get no reason, but
    the log has it.
    """
    if hook is None:
        return _NO_SECRET
    fields = about(tenant=tenant_id)
    try:
        secret = secrets(tenant_id).get(hook.secret, "").encode()
    except PodiumError as error:
        reason = without_credentials(str(error))
        _LOG.warning("hook %s: %s: %s", name, error.code, reason, extra=fields)
        return b""
    if len(secret) < MIN_SECRET_BYTES:
        problem = f"is missing, or has fewer than {MIN_SECRET_BYTES} bytes"
        _LOG.warning("hook %s: its secret %r %s", name, hook.secret, problem, extra=fields)
    return secret


def _check_delivery_id(delivery_id: str) -> None:
    check_id("delivery", delivery_id)
    if len(delivery_id) > _MAX_DELIVERY:
        raise InvalidId(f"the id of a delivery has at most {_MAX_DELIVERY} characters")


def _inputs(hook: Hook, body: Any) -> dict[str, Any]:
    if hook.schema is not None and (problem := schema_problem(body, hook.schema)) is not None:
        raise InvalidDelivery(f"the body does not match the schema of the hook: {problem}")
    if hook.body_input is not None:
        return {hook.body_input: body}
    if not isinstance(body, dict):
        raise InvalidDelivery("the body has to be a JSON object with the inputs of the plan")
    return body


async def _start(
    parts: Parts, endpoint: Endpoint, hook: Hook, delivery: Delivery, inputs: dict[str, Any]
) -> RunId:
    acting = _acting(parts, endpoint)
    kept = await published_plan(acting, endpoint.tenant_id, hook.plan_sha256)
    request = RunRequest(
        kept.plan,
        inputs=check_inputs(inputs, kept.plan.workflow),
        source=kept.contents[WORKFLOW],
        workspace=parts.workspace,
        tenant_id=endpoint.tenant_id,
        project_id=hook.project_id,
        environment_id=hook.environment_id,
        plan_content=kept.contents[PLAN],
        run_request_id=f"{endpoint.name}:{delivery.delivery_id}",
        pool=hook.pool,
    )
    run = await acting.prepare_for_pool(await prepared_request(acting, request))
    now = timestamp(parts.clock.now())
    # Older deliveries are refused because of their time; twice as long, for clocks that differ.
    forget = later(now, -4 * TOLERANCE_SECONDS)
    created = await parts.store.accept_delivery(
        endpoint.name, delivery.delivery_id, now, run, forget_before=forget
    )
    if created is None or created.duplicate:
        raise HookReplayed(delivery.delivery_id)
    return created.run.identity.run_id


def _acting(parts: Parts, endpoint: Endpoint) -> Parts:
    """What a hook starts was authorized when the hook was added; it is recorded under the hook's name."""
    asking = parts.access()
    actor = Actor(f"hook:{endpoint.name}", Method.HOOK)
    access = Access(actor, OwnerAuthoriser(), asking.key, asking.tenants)
    return replace(parts, access=lambda: access, is_owner=False)
