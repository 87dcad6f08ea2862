"""Hooks: one of a name, and each delivery accepted once."""

import asyncio
from typing import Any

import pytest

from podium.errors import InvalidId, RunNotFound, RunRequestConflict
from podium.hooks.endpoint import Endpoint, EndpointKind
from podium.log.ids import RunId
from podium.ports.schedule_changes import PreparedRun
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import World

HOOK, WEBHOOK = EndpointKind.HOOK, EndpointKind.WEBHOOK
NOON, LATER = "2026-01-01T12:00:00.000000Z", "2026-01-01T12:30:00.000000Z"
LONG_AGO = "2025-01-01T00:00:00.000000Z"


def endpoint(name: str = "deploy", tenant_id: str = "default") -> Endpoint:
    return Endpoint(kind=HOOK, tenant_id=tenant_id, name=name, body=b'{"a": 1}')


def prepared(run_id: str, **fields: Any) -> PreparedRun:
    return PreparedRun(new_run(run_id, **fields), (event(run_id, "RunQueued"),), {})


class EndpointPromises:
    def test_a_name_is_given_once_among_all_tenants(self, world: World) -> None:
        async def scenario() -> None:
            assert await world.store.add_endpoint(endpoint())
            assert not await world.other.add_endpoint(endpoint(tenant_id="acme"))
            assert await world.other.find_endpoint(HOOK, "deploy") == endpoint()
            assert await world.other.find_endpoint(HOOK, "none") is None
            assert await world.other.find_endpoint(HOOK, "a\0b") is None
            with pytest.raises(InvalidId):
                await world.store.add_endpoint(endpoint("a\0b"))

        world.run(scenario())

    def test_hooks_are_listed_by_tenant(self, world: World) -> None:
        async def scenario() -> None:
            for one in (endpoint("b"), endpoint("a"), endpoint("c", "acme")):
                assert await world.store.add_endpoint(one)
            assert [one.name for one in await world.other.list_endpoints(HOOK, "default")] == ["a", "b"]
            assert await world.other.list_endpoints(HOOK, "none") == []

        world.run(scenario())

    def test_a_webhook_is_kept_apart_from_a_hook_of_the_same_name(self, world: World) -> None:
        async def scenario() -> None:
            webhook = Endpoint(kind=WEBHOOK, tenant_id="default", name="deploy", body=b"{}")
            await world.store.add_endpoint(endpoint())
            assert await world.store.add_endpoint(webhook)
            assert await world.store.accept_delivery(
                "deploy", "d1", NOON, prepared("r1"), forget_before=LONG_AGO
            )
            assert await world.other.list_endpoints(WEBHOOK, "default") == [webhook]
            assert await world.other.list_endpoints(HOOK, "default") == [endpoint()]
            assert await world.other.remove_endpoint(WEBHOOK, "default", "deploy")
            assert await world.other.find_endpoint(HOOK, "deploy") == endpoint()
            # The hook still remembers what it has accepted.
            again = world.store.accept_delivery("deploy", "d1", NOON, prepared("r2"), forget_before=LONG_AGO)
            assert await again is None

        world.run(scenario())

    def test_what_is_stored_of_a_webhook_is_replaced_if_it_is_as_it_was(self, world: World) -> None:
        async def scenario() -> None:
            first, second, third = (
                Endpoint(kind=WEBHOOK, tenant_id="default", name="chat", body=body)
                for body in (b"1", b"2", b"3")
            )
            assert not await world.store.replace_endpoint(first, second)
            await world.store.add_endpoint(first)
            assert await world.store.replace_endpoint(first, second)
            assert not await world.other.replace_endpoint(first, third)
            assert await world.other.find_endpoint(WEBHOOK, "chat") == second

        world.run(scenario())

    def test_a_hook_is_removed_by_its_tenant_with_its_deliveries(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_endpoint(endpoint())
            assert await world.store.accept_delivery(
                "deploy", "d1", NOON, prepared("r1"), forget_before=LONG_AGO
            )
            assert not await world.other.remove_endpoint(HOOK, "acme", "deploy")
            assert await world.other.remove_endpoint(HOOK, "default", "deploy")
            assert await world.other.find_endpoint(HOOK, "deploy") is None
            assert await world.store.accept_delivery(
                "deploy", "d1", NOON, prepared("r2"), forget_before=LONG_AGO
            )

        world.run(scenario())

    def test_a_delivery_is_accepted_once_with_its_run(self, world: World) -> None:
        async def scenario() -> None:
            stores = [world.store, world.other] * 4
            accepted = await asyncio.gather(
                *(
                    store.accept_delivery(
                        "deploy", "d1", NOON, prepared(f"r{number}"), forget_before=LONG_AGO
                    )
                    for number, store in enumerate(stores)
                )
            )
            created = [one.run.identity.run_id for one in accepted if one is not None]
            assert len(created) == 1
            for number in range(8):
                if f"r{number}" not in created:
                    with pytest.raises(RunNotFound):
                        await world.other.get_run(RunId(f"r{number}"))
            assert await world.store.accept_delivery(
                "other", "d1", NOON, prepared("another"), forget_before=LONG_AGO
            )

        world.run(scenario())

    def test_a_delivery_is_known_as_long_as_it_is_remembered(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_endpoint(endpoint())
            assert not await world.store.has_delivery("deploy", "d1")
            assert await world.store.accept_delivery(
                "deploy", "d1", NOON, prepared("r1"), forget_before=LONG_AGO
            )
            assert await world.other.has_delivery("deploy", "d1")
            assert not await world.other.has_delivery("deploy", "d2")
            assert not await world.other.has_delivery("other", "d1")
            assert not await world.other.has_delivery("deploy", "\ud800")
            assert await world.store.accept_delivery(
                "deploy", "d2", LATER, prepared("r2"), forget_before=LATER
            )
            assert not await world.other.has_delivery("deploy", "d1")
            assert await world.store.remove_endpoint(HOOK, "default", "deploy")
            assert not await world.other.has_delivery("deploy", "d2")

        world.run(scenario())

    def test_a_delivery_whose_run_cannot_be_created_is_not_accepted(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            taken = prepared("r1", run_request_id="another")
            with pytest.raises(RunRequestConflict):
                await world.store.accept_delivery("deploy", "d1", NOON, taken, forget_before=LONG_AGO)
            assert await world.other.accept_delivery(
                "deploy", "d1", NOON, prepared("r2"), forget_before=LONG_AGO
            )

        world.run(scenario())

    def test_old_deliveries_are_forgotten(self, world: World) -> None:
        async def scenario() -> None:
            for number, (delivery, at, forget) in enumerate(
                [("d1", NOON, LONG_AGO), ("d2", LATER, LATER), ("d1", LATER, LATER)]
            ):
                run = prepared(f"r{number}")
                assert await world.store.accept_delivery("deploy", delivery, at, run, forget_before=forget)
            again = prepared("again")
            assert (
                await world.store.accept_delivery("deploy", "d2", LATER, again, forget_before=LATER) is None
            )

        world.run(scenario())
