"""The connection to Consul: its address, and credentials from the secrets. No message or `repr` shows them.

http://host:port    https://host:port    consul://host:port (like http)    consul+tls://host:port (like https)

`?dc=NAME` at the end names a datacenter other than that of the server.
"""

import hashlib
import re
import ssl
from collections.abc import Mapping
from typing import Final

import msgspec

from podium.patterns import lazy_pattern
from podium.ports.catalog import CatalogRefused
from podium.runtime.extras import ExtraMissing, has_extra, install_hint

TOKEN: Final = "PODIUM_CONSUL_TOKEN"
# PEM text: the trusted authority.
AUTHORITY: Final = "PODIUM_CONSUL_CA"
_SCHEMES: Final = {"http": "http", "consul": "http", "https": "https", "consul+tls": "https"}
_SERVER: Final = lazy_pattern(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
_DATACENTER: Final = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
_NODE: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9-]{0,123}")
_DEFAULT_PORTS: Final = {"http": 8500, "https": 8501}
_MAX_READABLE: Final = 100


class ConsulAddress(msgspec.Struct, frozen=True):
    url: str
    datacenter: str | None = None


def parse_address(text: str) -> ConsulAddress:
    """Raises ValueError, with what is wrong; the text itself may contain credentials and is not quoted."""
    scheme, _, rest = text.partition("://")
    place, _, query = rest.partition("?")
    server, datacenter = place.removesuffix("/"), query.removeprefix("dc=")
    if "@" in rest:
        raise ValueError(f"write no credentials into it; {TOKEN} is looked up as a secret")
    if scheme not in _SCHEMES or not _SERVER.fullmatch(server):
        raise ValueError("use http://HOST:PORT or https://HOST:PORT")
    if query and (not query.startswith("dc=") or not _DATACENTER.fullmatch(datacenter)):
        raise ValueError("only a datacenter may follow the port: ?dc=NAME")
    kind = _SCHEMES[scheme]
    has_port = server.rpartition("]")[2].count(":") == 1
    return ConsulAddress(
        f"{kind}://{server}" + ("" if has_port else f":{_DEFAULT_PORTS[kind]}"), datacenter or None
    )


def external_node(environment: str, namespace: str) -> str:
    """The prefix of the external nodes of one installation.

    Names are not case-sensitive in Consul and may contain characters that DNS does not allow: the digest
    distinguishes names that would look the same.
    """
    digest = hashlib.sha256(f"{environment}/{namespace}".encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9-]+", "-", f"podium-{environment}-{namespace}".lower())
    return f"{readable[:_MAX_READABLE]}-{digest}"


def check_node(node: str) -> None:
    """Raises ValueError."""
    if not _NODE.fullmatch(node):
        raise ValueError("the name of a node has 1 to 124 letters, digits and dashes")


class ConsulConnection:
    """The address of Consul and the credentials. Deliberately not a mapping, so that no encoder accepts it."""

    def __init__(self, address: ConsulAddress, secrets: Mapping[str, str]) -> None:
        """Raises `ExtraMissing`, `CatalogRefused`, and what looking up a secret raises."""
        if not has_extra("consul"):
            raise ExtraMissing(f"the service catalog: {install_hint('consul')}")
        self.address = address
        token = secrets.get(TOKEN)
        if token and not (token.isascii() and token.isprintable()):
            raise CatalogRefused(f"{TOKEN} has characters that no token of Consul has; check its source")
        self.headers = {"X-Consul-Token": token} if token else {}
        self.verify = _trusted(secrets.get(AUTHORITY)) if address.url.startswith("https:") else False

    def __repr__(self) -> str:
        return f"ConsulConnection({self.address.url})"


def _trusted(authority: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError):
        raise CatalogRefused(
            f"{AUTHORITY} is not a list of certificates as PEM text; check its source"
        ) from None
