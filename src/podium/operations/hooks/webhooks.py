"""Add, list and remove webhooks: addresses that receive the events of a tenant's runs."""

from typing import Final

import msgspec

from podium.errors import InvalidId, PodiumError
from podium.hooks.endpoint import Endpoint, EndpointKind, Webhook
from podium.log.events import EventType
from podium.log.ids import check_id
from podium.log.outbox import BusFilter, bus_filter
from podium.log.times import timestamp
from podium.operations.parts import Parts
from podium.ports.receivers import Receivers
from podium.runtime.webhook_bus import bus_name
from podium.text import shortened

_MAX_NAME: Final = 48
_MAX_SELECTED: Final = 100


class InvalidWebhook(PodiumError):
    code = "WEBHOOK_INVALID"


class WebhookNotFound(PodiumError):
    code = "WEBHOOK_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"webhook {shortened(name)!r} not found; `podium webhook list` lists all webhooks")


class WebhookExists(PodiumError):
    code = "WEBHOOK_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a webhook {shortened(name)!r} exists already, perhaps of another tenant; use another name"
        )


class WebhookOrder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`secret`: the name of a secret of the workers. `events` and `plans`: only these; empty: all."""

    url: str
    secret: str
    events: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()


class NamedWebhook(msgspec.Struct, frozen=True):
    name: str
    webhook: Webhook

    @property
    def state(self) -> str:
        if self.webhook.disabled_at is not None:
            return "disabled"
        return "failing" if self.webhook.failing_since is not None else "active"


async def add_webhook(
    parts: Parts, receivers: Receivers, tenant_id: str, name: str, order: WebhookOrder
) -> NamedWebhook:
    """Delivers events from now on. Raises `InvalidWebhook`, `WebhookExists` and `ReceiverRefused`."""
    await parts.require("hook.change", tenant_id)
    check_id("webhook", name)
    if len(name) > _MAX_NAME:
        valid = f"at most {_MAX_NAME} characters"
        raise InvalidId(f"webhook {shortened(name)!r} is too long: use {valid}", "webhook", valid)
    _check(order)
    receivers.check(order.url)
    webhook = Webhook(
        url=order.url,
        secret=order.secret,
        event_types=order.events,
        plans=order.plans,
        created_at=timestamp(parts.clock.now()),
        created_by=parts.access().actor.name,
    )
    if not await parts.store.add_endpoint(endpoint_of(tenant_id, name, webhook)):
        raise WebhookExists(name)
    # After a crash in between, the worker that delivers adds it.
    await parts.store.add_bus(bus_name(name), only=filter_of(tenant_id, webhook))
    return NamedWebhook(name, webhook)


def _check(order: WebhookOrder) -> None:
    if not order.secret:
        raise InvalidWebhook(
            "a webhook needs the name of the secret that deliveries are signed with", "secret"
        )
    if max(len(order.events), len(order.plans)) > _MAX_SELECTED:
        raise InvalidWebhook(
            f"a webhook selects at most {_MAX_SELECTED} types of events and plans",
            "events" if len(order.events) > _MAX_SELECTED else "plans",
            f"at most {_MAX_SELECTED}",
        )
    known = [one.value for one in EventType]
    for event_type in order.events:
        if event_type not in known:
            raise InvalidWebhook(
                f"unknown type of event {shortened(event_type)!r}; types: {', '.join(known)}",
                "events",
                ", ".join(known),
            )
    for plan in order.plans:
        check_id("plan_id", plan)


async def list_webhooks(parts: Parts, tenant_id: str) -> list[NamedWebhook]:
    await parts.require("hook.view", tenant_id)
    found = await parts.store.list_endpoints(EndpointKind.WEBHOOK, tenant_id)
    return [NamedWebhook(one.name, webhook_of(one)) for one in found]


async def remove_webhook(parts: Parts, tenant_id: str, name: str) -> None:
    """Also drops its undelivered events. Raises `WebhookNotFound`."""
    await parts.require("hook.change", tenant_id)
    if not await parts.store.remove_endpoint(EndpointKind.WEBHOOK, tenant_id, name):
        raise WebhookNotFound(name)
    await parts.store.remove_bus(bus_name(name))


def endpoint_of(tenant_id: str, name: str, webhook: Webhook) -> Endpoint:
    body = msgspec.json.encode(webhook)
    return Endpoint(kind=EndpointKind.WEBHOOK, tenant_id=tenant_id, name=name, body=body)


def webhook_of(endpoint: Endpoint) -> Webhook:
    return msgspec.json.decode(endpoint.body, type=Webhook)


def filter_of(tenant_id: str, webhook: Webhook) -> BusFilter:
    return bus_filter(webhook.event_types, webhook.plans, tenants=(tenant_id,))
