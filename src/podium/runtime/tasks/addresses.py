"""Which hosts an HTTP step may call (D68).

Never link-local addresses nor those where clouds keep the credentials of a machine: whoever can name a URL would get
these. Names and odd spellings (2852039166, 0xa9fea9fe) are judged by what they resolve to, and IPv6 addresses by the
IPv4 address inside them, too.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from podium.errors import PodiumError

_REFUSED: Final = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",  # link-local; metadata of AWS, Google, Azure and most others
            "fe80::/10",
            "100.100.100.200/32",  # metadata of Alibaba
            "168.63.129.16/32",  # the host of a machine at Azure
            "192.0.0.192/32",  # metadata of Oracle
            "fd00:ec2::/32",  # metadata of AWS
            "fd20:ce::/32",  # metadata of Google
        ),
    )
)
# IPv6 addresses that stand for the IPv4 address in their last bits.
_CARRIERS: Final = tuple(map(IPv6Network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")))


class AddressRefused(PodiumError):
    """An HTTP step may not call that host."""

    code = "ADDRESS_REFUSED"


def check_host(host: str, allowed: Sequence[str]) -> None:
    """`http_allow` narrows the hosts: by name, or by `*.example.com`, which is every name below. Empty is all."""
    host = host.lower().rstrip(".")
    if allowed and not any(_fits(host, pattern.lower()) for pattern in allowed):
        raise AddressRefused(f"the host {host!r} is not among `http_allow`: {', '.join(allowed)}")


def _fits(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def check_address(host: str, address: str) -> None:
    """Whether one may connect to an address that the host's name was resolved to."""
    for inner in _meanings(ip_address(address.partition("%")[0])):
        if any(inner in network for network in _REFUSED):
            raise AddressRefused(
                f"the host {host!r} is {address}: link-local and metadata addresses are never called"
            )


def _meanings(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    yield address
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield from address.teredo
        if any(address in network for network in _CARRIERS):
            yield IPv4Address(int(address) & 0xFFFFFFFF)
