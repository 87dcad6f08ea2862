"""Services of nodes in Consul, over the catalog API: they belong to external nodes that only this module
uses.

The agent API becomes slower with every service and loses them with its agent. An external node has no agent,
so that nothing but this module adds or removes its services, and other installations use other nodes. There
are 256 of them: a registration reads all services of its node, so that with a single node it would take
longer with every service. The first two digits of the id select the node, so that nodes in order have
services in order.

No text of an answer becomes part of an error, because Consul quotes what it was sent.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar
from uuid import UUID

import httpx2
import msgspec

from podium.catalogs.consul_settings import AUTHORITY, TOKEN, ConsulConnection, check_node
from podium.catalogs.json_stream import objects_of
from podium.errors import PodiumError
from podium.ports.catalog import CatalogRefused, CatalogUnavailable, Service, checked_service

CALL_SECONDS: Final = 10.0
_CONNECTIONS: Final = 32
_PAGE_SIZE: Final = 500
# Consul requires an address for a node. This one is reserved for documentation and unreachable; nodes have
# their endpoints in the metadata of their services.
_NO_ADDRESS: Final = "192.0.2.1"
_NODE_META: Final = {"external-node": "true", "external-probe": "false"}
_INSTALLATION: Final = "podium-installation"
_OK: Final = 200
_UNAUTHORIZED: Final = (401, 403)
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_CHECK_ADDRESS: Final = "check its address and whether it runs"
_DIGITS: Final = 2
_T = TypeVar("_T")


class ConsulServices:
    """A `ServiceCatalog`. Belongs to the event loop that it is first used on."""

    def __init__(self, connection: ConsulConnection, node: str, *, seconds: float = CALL_SECONDS) -> None:
        """`node`: the prefix of the external nodes' names. Raises ValueError if it is not valid."""
        check_node(node)
        self.node = node
        self._seconds = seconds
        self._datacenter = connection.address.datacenter
        self._http = httpx2.AsyncClient(
            base_url=connection.address.url,
            headers=connection.headers,
            limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            timeout=seconds,
            verify=connection.verify,
            trust_env=False,
            follow_redirects=False,
        )

    async def check(self) -> None:
        """Add the node, if it does not exist: checks whether Consul can be reached, and accepts the token and
        the datacenter.
        """
        if self._datacenter is not None:
            await self._check_datacenter(self._datacenter)
        await self._put("register", self._entry(self.node_of(UUID(int=0))))

    async def register(self, service: Service) -> None:
        entry = self._entry(self.node_of(service.node_id), Service=_described(service))
        await self._put("register", entry)

    async def deregister(self, node_id: UUID) -> None:
        key = self._key(self.node_of(node_id), ServiceID=str(node_id))
        await self._put("deregister", key, also_fine=(_NOT_FOUND,))

    async def services(self) -> AsyncIterator[Sequence[Service]]:
        page: list[Service] = []
        for node in await self._nodes():
            async with self._listing(node) as answer:
                async for one in _found(answer, node[-_DIGITS:]):
                    if page and one.node_id <= page[-1].node_id:
                        raise _not_consul(answer.status_code)
                    page.append(one)
                    if len(page) > _PAGE_SIZE:
                        yield page[:-1]
                        page = page[-1:]
        yield page

    def node_of(self, node_id: UUID) -> str:
        """The external node with the service of a node."""
        return f"{self.node}-{node_id.hex[:_DIGITS]}"

    async def close(self) -> None:
        await self._http.aclose()

    async def _check_datacenter(self, name: str) -> None:
        """Consul answers a request for an unknown one with a server failure."""
        known = await self._get("datacenters", list[str])
        if name not in known:
            raise CatalogRefused(
                "Consul does not know the datacenter of its address (?dc=NAME); correct the name"
            )

    async def _nodes(self) -> list[str]:
        """Our external nodes, in order."""
        params = {"node-meta": f"{_INSTALLATION}:{self.node}", **self._params}
        found = {one.name for one in await self._get("nodes", list[_Node], params)}
        return sorted(found & {f"{self.node}-{number:02x}" for number in range(256)})

    async def _get(self, path: str, kind: type[_T], params: Mapping[str, str] | None = None) -> _T:
        with _failures(self._seconds):
            async with asyncio.timeout(self._seconds):
                answer = await self._http.get(f"/v1/catalog/{path}", params=params)
        _check_list(answer)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _not_consul(answer.status_code) from None

    @property
    def _params(self) -> dict[str, str]:
        return {"dc": self._datacenter} if self._datacenter else {}

    def _entry(self, node: str, **more: Any) -> dict[str, Any]:
        meta = {**_NODE_META, _INSTALLATION: self.node}
        return self._key(node, Address=_NO_ADDRESS, NodeMeta=meta, **more)

    def _key(self, node: str, **more: Any) -> dict[str, Any]:
        return {"Datacenter": self._datacenter or "", "Node": node, **more}

    async def _put(self, action: str, body: dict[str, Any], also_fine: tuple[int, ...] = ()) -> None:
        content = _encoded(body)
        # The client's timeout applies to each read of a part.
        with _failures(self._seconds):
            async with asyncio.timeout(self._seconds):
                answer = await self._http.put(f"/v1/catalog/{action}", content=content)
        if answer.status_code in also_fine:
            return
        if answer.status_code != _OK:
            raise _refusal(answer.status_code)
        if answer.content.strip() != b"true":
            raise _not_consul(answer.status_code)

    @asynccontextmanager
    async def _listing(self, node: str) -> AsyncIterator[httpx2.Response]:
        path = f"/v1/catalog/node-services/{node}"
        with _failures(self._seconds):
            async with self._http.stream("GET", path, params=self._params) as answer:
                _check_list(answer)
                yield answer


class _Node(msgspec.Struct):
    name: str = msgspec.field(name="Node")


def _check_list(answer: httpx2.Response) -> None:
    if answer.status_code != _OK:
        raise _refusal(answer.status_code)
    if answer.headers.get("X-Consul-Results-Filtered-By-ACLs") == "true":
        raise CatalogRefused(
            f"Consul does not show all services to this token; allow it to read them, or change {TOKEN}"
        )


async def _found(answer: httpx2.Response, digits: str) -> AsyncIterator[Service]:
    try:
        async for one in objects_of("Services", answer.aiter_bytes()):
            service = _service(one, digits)
            if service is not None:
                yield service
    except (ValueError, TypeError):
        raise CatalogUnavailable("Consul did not send the whole list of its services; try again") from None


def _service(found: dict[str, Any], digits: str) -> Service | None:
    """The entry as it is, even if we would not register it; None for what cannot be ours, or not on this
    node.
    """
    given = found.get("ID")
    try:
        node_id = UUID(given)
    except (ValueError, AttributeError, TypeError):
        return None
    if str(node_id) != given or not given.startswith(digits):
        return None
    tags, meta = tuple(found.get("Tags") or ()), dict(found.get("Meta") or {})
    return Service.model_construct(node_id=node_id, name=str(found.get("Service")), tags=tags, meta=meta)


def _described(service: Service) -> dict[str, Any]:
    valid = checked_service(service)
    return {"ID": str(valid.node_id), "Service": valid.name, "Tags": valid.tags, "Meta": valid.meta}


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise CatalogRefused("a service has a text that is not valid UTF-8") from None


@contextmanager
def _failures(seconds: float) -> Iterator[None]:
    """Translates errors of the communication with Consul, without any of their text."""
    try:
        yield
    except PodiumError:
        raise
    except (httpx2.TimeoutException, TimeoutError):
        raise CatalogUnavailable(f"Consul did not answer within {seconds:g} s; {_CHECK_ADDRESS}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
        raise _unreachable(error) from None


def _unreachable(error: BaseException) -> PodiumError:
    if _is_untrusted(error):
        return CatalogRefused(
            f"the certificate of Consul is not trusted; check {AUTHORITY} and that the address has its name"
        )
    return CatalogUnavailable(f"Consul cannot be reached ({type(error).__name__}); {_CHECK_ADDRESS}")


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refusal(status: int) -> PodiumError:
    if status in _UNAUTHORIZED:
        return CatalogRefused(
            f"Consul does not accept the token ({status}); check the secret {TOKEN} and what the token may write"
        )
    if status == _TOO_MANY or status >= 500:
        return CatalogUnavailable(
            f"Consul failed ({status}); it may have no leader: try again, and look at its log"
        )
    if status < 400 or status == _NOT_FOUND:
        return _not_consul(status)
    return CatalogRefused(
        f"Consul refuses this ({status}); check the datacenter of its address, and look at its log"
    )


def _not_consul(status: int) -> CatalogRefused:
    return CatalogRefused(
        f"what is at this address does not answer as Consul does ({status}); check the address"
    )
