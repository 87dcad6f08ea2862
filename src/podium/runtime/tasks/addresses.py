"""Which hosts an HTTP step may call (D68).

Link-local addresses and those where clouds serve the credentials of a machine are never allowed: a user who
can choose a URL could read these. Names and odd spellings (2852039166, 0xa9fea9fe) are checked by what they
resolve to, and IPv6 addresses also by the IPv4 address inside them.
"""

from collections.abc import Sequence
from ipaddress import ip_address

from podium.errors import PodiumError
from podium.plan.addresses import is_metadata


class AddressRefused(PodiumError):
    """An HTTP step may not call that host."""

    code = "ADDRESS_REFUSED"


def check_host(host: str, allowed: Sequence[str]) -> None:
    """`http_allow` restricts the hosts: by name, or by `*.example.com`, which matches every name below. Empty
    allows all.
    """
    host = host.lower().rstrip(".")
    if allowed and not any(_fits(host, pattern.lower()) for pattern in allowed):
        raise AddressRefused(f"the host {host!r} is not among `http_allow`: {', '.join(allowed)}")


def _fits(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def check_address(host: str, address: str) -> None:
    """Refuse an address, to which the host's name was resolved, if it must not be connected to."""
    if is_metadata(ip_address(address.partition("%")[0])):
        raise AddressRefused(
            f"the host {host!r} is {address}: link-local and metadata addresses are never called"
        )
