"""What an IP address means. One address has many spellings; a rule that refuses one has to refuse all of
them.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

# Where clouds keep the credentials of a machine, and link-local addresses.
METADATA: Final = tuple(
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
# IPv6 ranges whose addresses carry an IPv4 address in their last bits.
_CARRIERS: Final = tuple(map(IPv6Network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")))


def meanings(address: Address) -> Iterator[Address]:
    """The address itself, and every IPv4 address inside it."""
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


def is_metadata(address: Address) -> bool:
    return any(inner in network for inner in meanings(address) for network in METADATA)


def is_public(address: Address) -> bool:
    """Whether it can be reached from everywhere: not loopback, private, link-local, multicast or reserved."""
    if isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address.is_site_local):
        return False  # the first is a spelling of an IPv4 address that no name server returns
    return not is_metadata(address) and all(
        inner.is_global and not inner.is_multicast for inner in meanings(address)
    )
