"""A webhook that fails for a day is disabled with an alert; a name that changes its address leads nowhere."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import httpcore2
import msgspec
import pytest

from podium.hooks.endpoint import Endpoint, EndpointKind
from podium.log.ids import RunId
from podium.operations.hooks.posting import MAX_FAILING, WebhookPoster
from podium.operations.hooks.webhooks import (
    WebhookOrder,
    add_webhook,
    list_webhooks,
    remove_webhook,
    webhook_of,
)
from podium.operations.parts import Parts
from podium.ports.receivers import ReceiverFailed, ReceiverRefused
from podium.runtime.receivers import WebReceivers
from podium.runtime.relay import CLAIM_TTL
from podium.runtime.webhook_bus import bus_name
from podium.stores.memory import MemoryStore
from podium.telemetry.metrics import Metrics
from podium.telemetry.opening import ProcessTelemetry
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from podium.wiring.use_cases import use_case_parts

ORDER = WebhookOrder(url="https://chat.example.com/x", secret="CHAT")
SECRETS = {"CHAT": "correct-horse-battery-staple"}


class Receivers:
    def __init__(self) -> None:
        self.fails = True
        self.posted = 0

    def check(self, url: str) -> None:
        pass

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        self.posted += 1
        if self.fails:
            raise ReceiverFailed("answered 500")


def test_a_webhook_is_disabled_after_a_day_of_failures_and_not_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store, receivers = MemoryStore(clock), Receivers()
        telemetry = ProcessTelemetry(Metrics(), None)
        parts = msgspec.structs.replace(parts_on(store, clock, tmp_path), telemetry=telemetry)
        await add_webhook(parts, receivers, "default", "chat", ORDER)
        await store.create_run(new_run("r1"), [event("r1", "RunQueued")])
        poster = WebhookPoster(parts, ["default"], lambda: receivers, lambda _tenant: SECRETS, print)
        (endpoint,) = await store.list_endpoints(EndpointKind.WEBHOOK, "default")

        async def deliver() -> None:
            relay = poster.relay(endpoint, webhook_of(endpoint), lambda error: noted(error))
            await relay.deliver_line()

        async def noted(error: str) -> None:
            await poster.note(endpoint, error)

        await deliver()
        clock.move(MAX_FAILING.total_seconds() - 1)
        await deliver()
        assert [one.state for one in await list_webhooks(parts, "default")] == ["failing"]
        receivers.fails = False
        await deliver()
        assert [one.state for one in await list_webhooks(parts, "default")] == ["active"]

        await store.append(RunId("r1"), [event("r1", "AlertRaised", subject="one")])
        receivers.fails = True
        await deliver()
        clock.move(MAX_FAILING.total_seconds())
        with caplog.at_level(logging.ERROR):
            await deliver()
        (found,) = await list_webhooks(parts, "default")
        assert (found.state, found.webhook.error) == ("disabled", "answered 500")
        assert "WEBHOOK_DISABLED" in caplog.text
        assert 'podium_alerts_total{code="WEBHOOK_DISABLED"} 1.0' in telemetry.exposition().decode()
        assert await store.outbox_lines(bus_name("chat")) == []
        # It gets nothing more, also from a worker that starts later.
        posted, stop = receivers.posted, asyncio.Event()
        receivers.fails = False
        asyncio.get_running_loop().call_later(0.05, stop.set)
        await poster.serve(stop)
        assert receivers.posted == posted

    asyncio.run(scenario())


def parts_on(store: MemoryStore, clock: VirtualClock, folder: Path) -> Parts:
    from msgspec.structs import replace

    return replace(use_case_parts(store, folder, print), clock=clock)


def test_every_address_of_a_name_is_checked_for_every_connection() -> None:
    """A name server that answers a public address first, and one inside the network later, gains nothing."""
    answers = [["93.184.216.34"], ["93.184.216.34", "10.0.0.8"], ["127.0.0.1"], ["169.254.169.254"]]
    connected: list[str] = []

    class Backend(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
            connected.append(host)
            raise httpcore2.ConnectError("no network in tests")

    async def resolve(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    async def scenario() -> None:
        receivers = WebReceivers(resolve=resolve, backend=Backend())
        with pytest.raises(ReceiverFailed, match="no network in tests"):
            await receivers.post("https://chat.example.com/x?key=hidden", {}, b"{}")
        for _ in range(3):
            with pytest.raises(ReceiverRefused) as refused:
                await receivers.post("https://chat.example.com/x?key=hidden", {}, b"{}")
            assert "never used" in str(refused.value)
            assert "hidden" not in str(refused.value)

    asyncio.run(scenario())
    assert connected == ["93.184.216.34"]


def test_a_webhook_is_signed_with_a_secret_of_its_own_tenant_only(tmp_path: Path) -> None:
    """Else a tenant could get what another one accepts signed by naming its secret."""

    async def scenario() -> None:
        clock = VirtualClock()
        store, receivers = MemoryStore(clock), Receivers()
        receivers.fails = False
        parts = parts_on(store, clock, tmp_path)
        await add_webhook(parts, receivers, "acme", "chat", ORDER)
        await store.create_run(new_run("r1", run={"tenant_id": "acme"}), [event("r1", "RunQueued")])
        secrets = {"default": SECRETS, "acme": {}}
        poster = WebhookPoster(parts, ["default", "acme"], lambda: receivers, secrets.__getitem__, print)
        (endpoint,) = await store.list_endpoints(EndpointKind.WEBHOOK, "acme")

        async def noted(error: str) -> None:
            await poster.note(endpoint, error)

        await poster.relay(endpoint, webhook_of(endpoint), noted).deliver_line()
        assert receivers.posted == 0
        (found,) = await list_webhooks(parts, "acme")
        assert "the secret 'CHAT' is missing" in found.webhook.error

    asyncio.run(scenario())


def test_a_slow_receiver_gets_no_event_after_the_claim_of_its_worker_lapsed(tmp_path: Path) -> None:
    """Else another worker claims the same events, and neither ever removes them."""

    async def scenario() -> None:
        clock = VirtualClock()
        store = MemoryStore(clock)

        class Slow(Receivers):
            async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
                self.posted += 1
                clock.move(4)

        receivers = Slow()
        parts = parts_on(store, clock, tmp_path)
        await add_webhook(parts, receivers, "default", "chat", ORDER)
        alerts = [event("r1", "AlertRaised", subject=str(number)) for number in range(20)]
        await store.create_run(new_run("r1"), [event("r1", "RunQueued"), *alerts])
        poster = WebhookPoster(parts, ["default"], lambda: receivers, lambda _tenant: SECRETS, print)
        (endpoint,) = await store.list_endpoints(EndpointKind.WEBHOOK, "default")

        async def noted(error: str) -> None:
            await poster.note(endpoint, error)

        relay, before = poster.relay(endpoint, webhook_of(endpoint), noted), clock.elapsed()
        await relay.deliver_line()
        assert clock.elapsed() - before < CLAIM_TTL.total_seconds() / 2
        while await relay.deliver_line():
            pass
        assert receivers.posted == 21

    asyncio.run(scenario())


def test_a_webhook_that_is_added_again_with_another_address_gets_its_events_there(tmp_path: Path) -> None:
    """The worker may not have looked in between."""

    async def scenario() -> None:
        clock = VirtualClock()
        store, addresses = MemoryStore(clock), list[str]()

        class Noting(Receivers):
            async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
                addresses.append(url)

        receivers = Noting()
        parts = parts_on(store, clock, tmp_path)
        await add_webhook(parts, receivers, "default", "chat", ORDER)
        poster = WebhookPoster(parts, ["default"], lambda: receivers, lambda _tenant: SECRETS, print)
        await poster.look()
        await remove_webhook(parts, "default", "chat")
        clock.move(1)
        elsewhere = WebhookOrder(url="https://elsewhere.example.com/x", secret="CHAT")
        await add_webhook(parts, receivers, "default", "chat", elsewhere)
        await poster.look()
        await store.create_run(new_run("r1"), [event("r1", "RunQueued")])
        async with asyncio.timeout(10):
            while not addresses:
                await asyncio.sleep(0.01)
        await poster.end()
        assert addresses == [elsewhere.url]

    asyncio.run(scenario())


def test_a_worker_that_cannot_deliver_does_not_disable_what_another_one_delivers_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store, receivers = MemoryStore(clock), Receivers()
        receivers.fails = False
        parts = parts_on(store, clock, tmp_path)
        await add_webhook(parts, receivers, "default", "chat", ORDER)
        working, other = (
            WebhookPoster(parts, ["default"], lambda: receivers, lambda _tenant: SECRETS, print)
            for _ in range(2)
        )
        (endpoint,) = await store.list_endpoints(EndpointKind.WEBHOOK, "default")
        await working.look()

        async def deliver(number: int) -> None:
            await store.create_run(new_run(f"r{number}"), [event(f"r{number}", "RunQueued")])
            async with asyncio.timeout(10):
                while receivers.posted < number or await store.outbox_lines(bus_name("chat")):
                    await asyncio.sleep(0.01)

        await deliver(1)
        await other.note(endpoint, "the secret 'CHAT' is missing")
        await deliver(2)
        clock.move(MAX_FAILING.total_seconds())
        assert not await other.note(endpoint, "the secret 'CHAT' is missing")
        await working.end()
        assert [one.state for one in await list_webhooks(parts, "default")] == ["failing"]

    asyncio.run(scenario())


def test_a_success_while_it_is_about_to_be_disabled_keeps_a_webhook(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store, receivers = MemoryStore(clock), Receivers()
        parts = parts_on(store, clock, tmp_path)
        await add_webhook(parts, receivers, "default", "chat", ORDER)
        (endpoint,) = await store.list_endpoints(EndpointKind.WEBHOOK, "default")
        poster = WebhookPoster(parts, ["default"], lambda: receivers, lambda _tenant: SECRETS, print)
        await poster.note(endpoint, "answered 500")
        clock.move(MAX_FAILING.total_seconds())
        replace_endpoint = store.replace_endpoint

        async def overtaken(before: Endpoint, after: Endpoint) -> bool:
            store.replace_endpoint = replace_endpoint  # type: ignore[method-assign]
            await poster.note(endpoint, "")
            return await replace_endpoint(before, after)

        store.replace_endpoint = overtaken  # type: ignore[method-assign]
        assert not await poster.note(endpoint, "answered 500")
        assert [one.state for one in await list_webhooks(parts, "default")] == ["active"]
        await store.create_run(new_run("r1"), [event("r1", "RunQueued")])
        assert len(await store.outbox_lines(bus_name("chat"))) == 1

    asyncio.run(scenario())
