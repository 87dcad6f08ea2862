"""Which hosts an HTTP step may call (D68).

Never link-local addresses nor those where clouds keep the credentials of a machine: whoever can name a URL would get
these. Names and odd spellings (2852039166, 0xa9fea9fe) are judged by what they resolve to, and IPv6 addresses by the
IPv4 address inside them, too.
"""

from collections.abc import Sequence
from ipaddress import ip_address

from podium.errors import PodiumError
from podium.plan.addresses import is_metadata


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
    if is_metadata(ip_address(address.partition("%")[0])):
        raise AddressRefused(
            f"the host {host!r} is {address}: link-local and metadata addresses are never called"
        )
