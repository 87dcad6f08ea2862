"""Consul as a service catalog, beyond what every catalog promises: tokens, other installations, a server that dies."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from podium.catalogs.consul import ConsulServices
from podium.catalogs.consul_settings import external_node
from podium.errors import PodiumError
from podium.ports.catalog import CatalogRefused, CatalogUnavailable
from podium.testing.catalog_promises import listed, service
from podium.wiring import catalogs, plans
from services import consul
from services.consul import ConsulServer
from tests.promises.catalogs.worlds import consul_at
from tests.servers import need

TOKEN = str(UUID(int=0x5EC2E7 << 64))
_WRITER = """
node_prefix "" { policy = "write" }
service_prefix "onex-" { policy = "read" }
"""


@pytest.mark.rule("RC05")
def test_two_installations_on_one_consul_do_not_see_each_other(shared_consul: ConsulServer) -> None:
    async def main() -> None:
        here, there = (
            consul_at(shared_consul.address, node=external_node(f"env-{uuid4().hex}", "main"))
            for _ in range(2)
        )
        await here.register(service(1))
        await there.register(service(1, name="onex-compute"))
        await there.register(service(2))
        await here.deregister(service(2).node_id)
        assert await listed(here) == [service(1)]
        assert await listed(there) == [service(1, name="onex-compute"), service(2)]
        await here.close()
        await there.close()

    asyncio.run(main())


def test_registering_again_does_not_change_the_index(shared_consul: ConsulServer) -> None:
    """So that programs that watch the catalog are not woken."""
    node = f"test-{uuid4().hex}"

    async def main() -> None:
        services = consul_at(shared_consul.address, node=node)
        await services.register(service())
        before = _index(shared_consul, node)
        await services.register(service())
        await services.check()
        assert _index(shared_consul, node) == before
        await services.close()

    asyncio.run(main())


def _index(server: ConsulServer, node: str) -> int:
    with urllib.request.urlopen(f"{server.address}/v1/catalog/node-services/{node}-00") as answer:
        return int(json.load(answer)["Services"][0]["ModifyIndex"])


# --- tokens ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(consul_program: None) -> Iterator[ConsulServer]:
    """A server that refuses what comes without a token."""
    with need(lambda: consul.start(settings=consul.with_token(TOKEN))) as server:
        yield server


@pytest.mark.rule("RC04")
def test_the_token_opens_the_catalog(guarded: ConsulServer) -> None:
    async def main() -> None:
        services = consul_at(guarded.address, TOKEN)
        await services.check()
        await services.register(service())
        assert await listed(services) == [service()]
        await services.deregister(service().node_id)
        await services.close()

    asyncio.run(main())


@pytest.mark.rule("RC04")
@pytest.mark.parametrize("token", ["", "hunter2-hunter2", str(UUID(int=7))])
def test_a_wrong_token_is_refused_and_not_shown(guarded: ConsulServer, token: str) -> None:
    async def main() -> PodiumError:
        services = consul_at(guarded.address, token)
        try:
            with pytest.raises(CatalogRefused) as refused:
                await services.check()
            with pytest.raises(CatalogRefused):
                await services.register(service())
        finally:
            await services.close()
        return refused.value

    error = str(asyncio.run(main()))
    assert "does not accept the token (403); check the secret PODIUM_CONSUL_TOKEN" in error
    assert not token or token not in error


@pytest.mark.rule("RC04")
def test_a_token_that_may_not_write_services_or_see_all_of_them_is_refused(guarded: ConsulServer) -> None:
    async def main() -> None:
        node = f"test-{uuid4().hex}"
        owner = consul_at(guarded.address, TOKEN, node=node)
        await owner.register(service(1))
        await owner.register(service(2, name="other"))
        limited = consul_at(guarded.address, _new_token(guarded), node=node)
        await limited.check()
        with pytest.raises(CatalogRefused, match="403"):
            await limited.register(service(3))
        with pytest.raises(CatalogRefused, match="does not show all services"):
            await listed(limited)
        await owner.close()
        await limited.close()

    asyncio.run(main())


def _new_token(server: ConsulServer) -> str:
    name = f"limited-{uuid4().hex}"
    _acl(server, "policy", {"Name": name, "Rules": _WRITER})
    return str(_acl(server, "token", {"Policies": [{"Name": name}]})["SecretID"])


def _acl(server: ConsulServer, kind: str, body: dict[str, object]) -> dict[str, object]:
    request = urllib.request.Request(
        f"{server.address}/v1/acl/{kind}",
        json.dumps(body).encode(),
        {"X-Consul-Token": TOKEN},
        method="PUT",
    )
    with urllib.request.urlopen(request) as answer:
        found: dict[str, object] = json.load(answer)
    return found


# --- opened as the commands do ---------------------------------------------------------------------


@pytest.mark.rule("RC04")
def test_the_address_and_the_token_come_from_the_secrets(
    guarded: ConsulServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = f"env-{uuid4().hex}"

    async def open_and_register() -> None:
        services = await catalogs.open_service_catalog(None, environment, "main")
        await services.register(service())
        await services.close()

    async def look() -> list[object]:
        services = consul_at(guarded.address, TOKEN, node=external_node(environment, "main"))
        found = await listed(services)
        await services.close()
        return [*found]

    plans.secret_lookup.cache_clear()
    monkeypatch.setenv("PODIUM_CONSUL", f"{guarded.address}?dc=dc1")
    monkeypatch.setenv("PODIUM_CONSUL_TOKEN", TOKEN)
    asyncio.run(open_and_register())
    assert asyncio.run(look()) == [service()]
    plans.secret_lookup.cache_clear()
    monkeypatch.setenv("PODIUM_CONSUL_TOKEN", "hunter2-hunter2")
    with pytest.raises(CatalogRefused):
        asyncio.run(open_and_register())
    plans.secret_lookup.cache_clear()


@pytest.mark.parametrize(
    ("address", "node", "said"),
    [
        ("http://u:hunter2@consul", None, "write no credentials into it"),
        ("redis://consul", None, "use http://HOST:PORT"),
        ("http://consul", "a/b", "letters, digits and dashes"),
        (None, None, "set the secret PODIUM_CONSUL"),
    ],
)
def test_an_address_or_a_node_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str | None, node: str | None, said: str
) -> None:
    monkeypatch.delenv("PODIUM_CONSUL", raising=False)
    with pytest.raises(catalogs.UnknownCatalog, match=said) as refused:
        asyncio.run(catalogs.open_service_catalog(address, "e", "n", node=node))
    assert "hunter2" not in str(refused.value)


@pytest.mark.rule("RC04")
def test_an_unknown_datacenter_is_refused(shared_consul: ConsulServer) -> None:
    with pytest.raises(CatalogRefused, match="does not know the datacenter"):
        asyncio.run(catalogs.open_service_catalog(f"{shared_consul.address}?dc=nowhere", "e", "n"))


# --- a server that dies -----------------------------------------------------------------------------


@pytest.mark.rule("RC06")
def test_services_survive_the_death_of_a_durable_server_and_calls_continue_when_it_is_back(
    consul_program: None,
) -> None:
    async def main(server: ConsulServer) -> None:
        services = consul_at(server.address)
        other = consul_at(server.address, node=services.node)
        try:
            await _die_and_come_back(server, services, other)
        finally:
            await services.close()
            await other.close()

    with need(lambda: consul.start(durable=True)) as server:
        asyncio.run(main(server))


async def _die_and_come_back(server: ConsulServer, services: ConsulServices, other: ConsulServices) -> None:
    await asyncio.gather(*(services.register(service(number)) for number in range(20)))
    server.kill9()
    with pytest.raises(CatalogUnavailable):
        await services.register(service(1))
    with pytest.raises(CatalogUnavailable):
        await services.deregister(service(1).node_id)
    with pytest.raises(CatalogUnavailable):
        await listed(services)
    server.restart()
    # What failed is repeated with the same arguments, in this process or in the next one.
    await services.deregister(service(0).node_id)
    await other.deregister(service(0).node_id)
    await other.register(service(1))
    assert await listed(services) == [service(number) for number in range(1, 20)]
