"""What the adapter of Consul says when something goes wrong: a code and what to do, and nothing that it was sent."""

import asyncio
import json
import random
import socket
import ssl
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from podium.catalogs.consul import ConsulServices
from podium.catalogs.consul_settings import (
    ConsulAddress,
    ConsulConnection,
    check_node,
    external_node,
    parse_address,
)
from podium.errors import PodiumError
from podium.ports.catalog import CatalogRefused, CatalogUnavailable, Service
from podium.testing.catalog_promises import listed, service
from tests.unit.catalogs.fake_consul import answering, response

SECRET = "hunter2-s3cr3t-token"
ECHO = f"Couldn't load metadata pair ('k', '{SECRET}') of postgresql://u:{SECRET}@10.1.2.3/db".encode()
NODE = "podium-test-00"
Call = Callable[[ConsulServices], Coroutine[Any, Any, Any]]


def _services(address: str, token: str = SECRET, *, seconds: float = 10.0, **secrets: str) -> ConsulServices:
    connection = ConsulConnection(parse_address(address), {"PODIUM_CONSUL_TOKEN": token, **secrets})
    return ConsulServices(connection, "podium-test", seconds=seconds)


def _error_of(call: Call, raw: bytes, node: str = "") -> PodiumError:
    async def main() -> PodiumError:
        async with answering(raw, node=node) as address:
            return await _failure(call, _services(address))

    return asyncio.run(main())


async def _failure(call: Call, services: ConsulServices) -> PodiumError:
    try:
        with pytest.raises(PodiumError) as caught:
            await call(services)
    finally:
        await services.close()
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert "10.1.2.3" not in shown
    return caught.value


async def _register(services: ConsulServices) -> None:
    await services.register(service(meta={"k": SECRET}))


async def _deregister(services: ConsulServices) -> None:
    await services.deregister(service().node_id)


CALLS: list[Call] = [_register, _deregister, listed, ConsulServices.check]


@pytest.mark.rule("RC03")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, CatalogRefused),
        (400, CatalogRefused),
        (401, CatalogRefused),
        (403, CatalogRefused),
        (429, CatalogUnavailable),
        (500, CatalogUnavailable),
        (503, CatalogUnavailable),
    ],
)
def test_an_answer_becomes_a_code_without_its_text(call: Call, status: int, kind: type[PodiumError]) -> None:
    headers = [f"X-Echo: {SECRET}", f"Location: http://10.1.2.3/{SECRET}"]
    error = _error_of(call, response(status, ECHO, *headers))
    assert type(error) is kind
    assert str(status) in str(error)


@pytest.mark.rule("RC03")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("raw", [b"", ECHO, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + ECHO])
def test_an_answer_that_is_cut_or_not_http_is_unavailable(call: Call, raw: bytes) -> None:
    assert isinstance(_error_of(call, raw), CatalogUnavailable)


@pytest.mark.parametrize("body", [b"", b"false", ECHO, b"<html>Welcome to nginx</html>", b'{"ok": true}'])
@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_not_consul_is_recognised(call: Call, body: bytes) -> None:
    error = _error_of(call, response(200, body))
    assert isinstance(error, CatalogRefused)


@pytest.mark.parametrize("call", [_register, listed, ConsulServices.check])
def test_a_path_that_is_not_there_is_refused(call: Call) -> None:
    assert "does not answer as Consul does (404)" in str(_error_of(call, response(404, ECHO)))


def test_a_service_that_is_gone_is_deregistered() -> None:
    async def main() -> None:
        async with answering(response(404, b"Unknown service ID")) as address:
            services = _services(address)
            await _deregister(services)
            await services.close()

    asyncio.run(main())


def test_a_list_that_the_token_may_not_see_in_full_is_refused() -> None:
    raw = response(200, b'{"Node":{},"Services":[]}', "X-Consul-Results-Filtered-By-ACLs: true")
    assert "does not show all services" in str(_error_of(listed, raw, NODE))
    raw = response(200, b"[]", "X-Consul-Results-Filtered-By-ACLs: true")
    assert "does not show all services" in str(_error_of(listed, raw))


@pytest.mark.parametrize("body", [b"", b"false", ECHO, b'{"Services":[{'])
def test_a_list_that_is_not_whole_is_unavailable(body: bytes) -> None:
    assert isinstance(_error_of(listed, response(200, body), NODE), CatalogUnavailable)


@pytest.mark.parametrize(
    "items",
    [
        [{"ID": str(service(2).node_id)}, {"ID": str(service(1).node_id)}],
        [{"ID": str(service(1).node_id)}, {"ID": str(service(1).node_id)}],
    ],
)
def test_a_list_without_order_is_refused(items: list[dict[str, str]]) -> None:
    raw = response(200, json.dumps({"Node": {}, "Services": items}).encode())
    assert isinstance(_error_of(listed, raw, NODE), CatalogRefused)


def test_what_cannot_be_ours_is_not_listed_and_what_we_would_not_register_is() -> None:
    known = str(service(1).node_id)
    items = [
        {"ID": known.upper().replace("0", "A")},
        {"ID": known, "Service": "Not A Name", "Tags": None, "Meta": {"a.b": "c"}},
        {"ID": "redis", "Service": "redis"},
        {"ID": "ff" + known[2:], "Service": "on another node"},
        {"Service": "without an id"},
    ]

    async def main() -> list[Service]:
        async with answering(response(200, json.dumps({"Services": items}).encode()), node=NODE) as address:
            services = _services(address)
            try:
                return await listed(services)
            finally:
                await services.close()

    (found,) = asyncio.run(main())
    assert (found.node_id, found.name, found.tags, found.meta) == (
        service(1).node_id,
        "Not A Name",
        (),
        {"a.b": "c"},
    )


@pytest.mark.rule("RC04")
def test_a_request_has_the_token_the_datacenter_and_the_node() -> None:
    seen: list[bytes] = []

    async def main() -> None:
        async with answering(response(200, b"true"), seen=seen) as address:
            services = _services(f"{address}?dc=east")
            await services.register(service())
            await services.close()

    asyncio.run(main())
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /v1/catalog/register HTTP/1.1")
    assert f"x-consul-token: {SECRET}".encode() in head.lower()
    entry = json.loads(body)
    assert (entry["Datacenter"], entry["Node"]) == ("east", "podium-test-00")
    assert entry["Service"] == {
        "ID": str(service().node_id),
        "Service": "onex-effect",
        "Tags": ["a"],
        "Meta": {"k": "v"},
    }


@pytest.mark.rule("RC03")
@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_not_there_is_unavailable(call: Call) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        error = asyncio.run(_failure(call, _services(address)))
    assert isinstance(error, CatalogUnavailable)
    assert isinstance(error, ConnectionError)


@pytest.mark.rule("RC03")
def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        error = asyncio.run(_failure(_register, _services(address, seconds=0.2)))
    assert "Consul did not answer within 0.2 s" in str(error)


def test_a_server_that_sends_its_answer_in_small_parts_is_not_waited_for() -> None:
    async def main() -> PodiumError:
        async with answering(response(200, b" " * 100_000), pause=0.05) as address:
            return await _failure(_register, _services(address, seconds=0.5))

    assert "Consul did not answer within 0.5 s" in str(asyncio.run(main()))


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ssl.SSLContext]:
    """Of 127.0.0.1, signed by itself, as PEM text; and what a server needs to show it."""
    folder: Path = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "consul")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = built.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "both.pem").write_bytes(pem + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return pem.decode(), context


@pytest.mark.rule("RC04")
def test_a_certificate_is_trusted_if_the_secret_names_its_authority(
    certificate: tuple[str, ssl.SSLContext],
) -> None:
    pem, context = certificate

    async def main() -> None:
        async with answering(response(200, b"true"), tls=context) as address:
            services = _services(address, PODIUM_CONSUL_CA=pem)
            await services.register(service())
            await services.close()
            error = await _failure(_register, _services(address))
            assert isinstance(error, CatalogRefused)
            assert "the certificate of Consul is not trusted; check PODIUM_CONSUL_CA" in str(error)

    asyncio.run(main())


def test_an_authority_that_is_not_pem_and_a_token_with_other_characters_are_refused() -> None:
    with pytest.raises(CatalogRefused, match="PODIUM_CONSUL_CA is not a list of certificates") as refused:
        _services("https://127.0.0.1", PODIUM_CONSUL_CA=f"-----BEGIN {SECRET}")
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(CatalogRefused, match="PODIUM_CONSUL_TOKEN has characters") as refused:
        _services("http://127.0.0.1", f"{SECRET}\r\nX: y")
    assert SECRET not in str(refused.value)


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url", "datacenter"),
    [
        ("http://127.0.0.1:8500", "http://127.0.0.1:8500", None),
        ("http://consul", "http://consul:8500", None),
        ("https://consul/", "https://consul:8501", None),
        ("consul://consul:1", "http://consul:1", None),
        ("consul+tls://consul", "https://consul:8501", None),
        ("http://[::1]:8500?dc=east-1", "http://[::1]:8500", "east-1"),
        ("http://[::1]", "http://[::1]:8500", None),
    ],
)
def test_addresses_of_consul(text: str, url: str, datacenter: str | None) -> None:
    assert parse_address(text) == ConsulAddress(url, datacenter)


@pytest.mark.rule("RC03")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "consul",
        "consul:8500",
        "ftp://consul",
        f"http://user:{SECRET}@consul",
        f"http://consul/path/{SECRET}",
        f"http://consul?token={SECRET}",
        "http://consul?dc=",
        "http://consul?dc=a b",
        "http://con sul",
        "http://consul:port",
    ],
)
def test_other_addresses_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(ValueError, match=r"use http://|write no credentials|only a datacenter") as refused:
        parse_address(text)
    assert SECRET not in str(refused.value)


@pytest.mark.rule("RC05")
def test_each_installation_has_an_external_node_of_its_own() -> None:
    names = [
        external_node(*names)
        for names in [("dev", "a-b"), ("dev-a", "b"), ("Dev", "a-b"), ("dev", "a.b"), ("e" * 128, "n" * 128)]
    ]
    assert len({name.lower() for name in names}) == len(names)
    assert names[0].startswith("podium-dev-a-b-")
    for name in names:
        check_node(name)
    with pytest.raises(ValueError, match="letters, digits and dashes"):
        check_node("a/b")


@pytest.mark.rule("RC08")
def test_services_are_spread_over_nodes_because_consul_reads_all_of_a_node_for_each() -> None:
    services = _services("http://127.0.0.1")
    draw = random.Random(7)
    ids = sorted(UUID(int=draw.getrandbits(128), version=4) for _ in range(20_000))
    nodes = [services.node_of(one) for one in ids]
    assert max(Counter(nodes).values()) < 150
    assert nodes == sorted(nodes)
