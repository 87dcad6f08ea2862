"""Delivers events to the webhooks of some tenants. Any number of workers may do this on one store.

Each webhook is a bus: its outbox survives a crash, and one relay at a time has the events of a run. A failing
receiver is retried for a day; then the webhook is disabled with an alert, and its undelivered events are
dropped.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from podium.errors import PodiumError, StoreUnavailable
from podium.hooks.endpoint import Endpoint, EndpointKind, Webhook
from podium.hooks.signing import MIN_SECRET_BYTES
from podium.log.alerts import Alert, AlertCode
from podium.log.times import Timestamp, moment, timestamp
from podium.operations.hooks.delivering import SecretsOf
from podium.operations.hooks.webhooks import InvalidWebhook, filter_of, webhook_of
from podium.operations.parts import Parts
from podium.ports.log_fields import logging_about
from podium.ports.receivers import Receivers
from podium.runtime import holders
from podium.runtime.alerts import Alerting
from podium.runtime.relay import CLAIM_TTL, Relay
from podium.runtime.webhook_bus import WebhookBus, bus_name
from podium.text import shortened

MAX_FAILING: Final = timedelta(days=1)
# Interval for detecting new and removed webhooks.
_LOOK_SECONDS: Final = 2.0
_MAX_ERROR: Final = 500
# The receiver gets one event at a time anyway.
_CONCURRENT_LINES: Final = 4

Trouble = Callable[[str], None]


class WebhookPoster:
    """For the webhooks of these tenants. `receivers` is called with the first of them, because it needs an
    extra.
    """

    def __init__(
        self,
        parts: Parts,
        tenants: Sequence[str],
        receivers: Callable[[], Receivers],
        secrets: SecretsOf,
        trouble: Trouble,
        claim_ttl: timedelta = CLAIM_TTL,
    ) -> None:
        self._parts = parts
        self._tenants = tuple(tenants)
        self._receivers = receivers
        self._secrets = secrets
        self._trouble = trouble
        self._claim_ttl = claim_ttl
        self._alerting = Alerting(parts.store, parts.clock, telemetry=parts.telemetry)
        self._posting: dict[tuple[str, str], _Posting] = {}
        self._is_troubled = False

    async def serve(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. If the store does not answer, waits for it."""
        try:
            while not stop.is_set():
                try:
                    await self.look()
                    self._is_troubled = False
                except PodiumError as error:
                    self._say_once(f"webhooks: {error}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await stop.wait()
        finally:
            await self.end()

    async def end(self) -> None:
        await asyncio.gather(*(one.end() for one in self._posting.values()))

    def _say_once(self, reason: str) -> None:
        if not self._is_troubled:
            self._trouble(reason)
        self._is_troubled = True

    async def look(self) -> None:
        """Start new webhooks, and stop those that were removed, disabled or added again."""
        found: dict[tuple[str, str], Endpoint] = {}
        for tenant in self._tenants:
            for one in await self._parts.store.list_endpoints(EndpointKind.WEBHOOK, tenant):
                if webhook_of(one).disabled_at is None:
                    found[tenant, one.name] = one
        for key, posting in list(self._posting.items()):
            if posting.has_ended or key not in found or not _is_same(found[key], posting.endpoint):
                del self._posting[key]
                await self._stop(posting)
        for key, endpoint in found.items():
            if key not in self._posting:
                self._posting[key] = await self._started(endpoint)

    async def _started(self, endpoint: Endpoint) -> "_Posting":
        webhook = webhook_of(endpoint)
        store = self._parts.store
        await store.add_bus(bus_name(endpoint.name), only=filter_of(endpoint.tenant_id, webhook))
        return _Posting(self, endpoint, webhook)

    async def _stop(self, posting: "_Posting") -> None:
        await posting.end()
        name = posting.endpoint.name
        if await self._parts.store.find_endpoint(EndpointKind.WEBHOOK, name) is None:
            # It may have been removed just before this worker added the bus.
            await self._parts.store.remove_bus(bus_name(name))

    # --- what one webhook needs ---------------------------------------------------------------------

    def relay(self, endpoint: Endpoint, webhook: Webhook, outcome: Callable[[str], Awaitable[None]]) -> Relay:
        async def secret() -> bytes:
            return await self._secret(endpoint.tenant_id, webhook)

        clock, store = self._parts.clock, self._parts.store
        bus = WebhookBus(
            *(endpoint.name, endpoint.tenant_id, webhook.url, secret, self._receivers(), clock, outcome),
            # The rest is for the delivery under way when it has passed.
            batch=self._claim_ttl / 3,
        )
        return Relay(
            store,
            bus,
            self._alerting,
            owner=holders.new_owner(),
            claim_ttl=self._claim_ttl,
            concurrent_lines=_CONCURRENT_LINES,
        )

    async def _secret(self, tenant_id: str, webhook: Webhook) -> bytes:
        """A source may take long to answer."""
        found = await asyncio.to_thread(lambda: self._secrets(tenant_id).get(webhook.secret, ""))
        secret = found.encode()
        if len(secret) < MIN_SECRET_BYTES:
            raise InvalidWebhook(
                f"the secret {webhook.secret!r} is missing, or has fewer than {MIN_SECRET_BYTES} bytes"
            )
        return secret

    async def note(self, endpoint: Endpoint, error: str) -> bool:
        """Record the result of a delivery; True if this webhook gets nothing more."""
        store, now = self._parts.store, timestamp(self._parts.clock.now())
        kept = await store.find_endpoint(EndpointKind.WEBHOOK, endpoint.name)
        if kept is None or not _is_same(kept, endpoint):
            return True
        before = webhook_of(kept)
        after = _with_result(before, error, now)
        if after == before:
            return before.disabled_at is not None
        body = msgspec.json.encode(after)
        if not await store.replace_endpoint(kept, msgspec.structs.replace(kept, body=body)):
            return False  # another worker has recorded a result of its own
        if after.disabled_at is not None:
            await self._disable(endpoint, after)
        return after.disabled_at is not None

    async def _disable(self, endpoint: Endpoint, webhook: Webhook) -> None:
        name = endpoint.name
        message = (
            f"webhook {name!r} has failed since {webhook.failing_since} and is disabled: {webhook.error}"
        )
        with logging_about(tenant=endpoint.tenant_id):
            self._alerting.notify(Alert(AlertCode.WEBHOOK_DISABLED, name, message))
        await self._parts.store.remove_bus(bus_name(name))


def _is_same(one: Endpoint, other: Endpoint) -> bool:
    """Not removed and added again, perhaps with another address."""
    return one.tenant_id == other.tenant_id and webhook_of(one).created_at == webhook_of(other).created_at


def _with_result(webhook: Webhook, error: str, now: Timestamp) -> Webhook:
    if webhook.disabled_at is not None:
        return webhook
    if not error:
        return msgspec.structs.replace(webhook, failing_since=None, error="")
    since = webhook.failing_since or now
    is_over = moment(now) - moment(since) >= MAX_FAILING
    return msgspec.structs.replace(
        webhook,
        failing_since=since,
        error=shortened(error, _MAX_ERROR),
        disabled_at=now if is_over else None,
    )


class _Posting:
    """The relay of one webhook, as a task."""

    def __init__(self, poster: WebhookPoster, endpoint: Endpoint, webhook: Webhook) -> None:
        self._poster = poster
        self.endpoint = endpoint
        self._relay = poster.relay(endpoint, webhook, self._outcome)
        self._task = asyncio.create_task(self._run())

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def end(self) -> None:
        self._relay.stop()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        # If the store does not answer, it is restarted later.
        with contextlib.suppress(StoreUnavailable):
            await self._relay.run()

    async def _outcome(self, error: str) -> None:
        if await self._poster.note(self.endpoint, error):
            self._relay.stop()
