"""Protection against requests that another site causes a browser to send.

A browser attaches cookies to such a request automatically, so a request with a cookie that changes something
has to prove that it is ours: by the origin, which the browser sets, and by a header that no form can set. A
token is never attached automatically.
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from podium.errors import PodiumError

OWN_HEADER: Final = b"podium-request"
_SAFE: Final = ("GET", "HEAD")


class CsrfRefused(PodiumError):
    """A request with the cookie of a session that does not prove that it is ours."""

    code = "CSRF_REFUSED"

    def __init__(self) -> None:
        super().__init__(
            "this request is authenticated by a cookie and changes something: send it from a page of this server, "
            "with the header `Podium-Request: 1`; programs use a token instead"
        )


def is_own_request(scope: Any, *, is_secure: bool) -> bool:
    return scope["method"] in _SAFE or (
        is_own_origin(scope, is_secure=is_secure) and bool(_values(scope, OWN_HEADER))
    )


def is_own_origin(scope: Any, *, is_secure: bool) -> bool:
    """Checks `Origin` and `Sec-Fetch-Site`: at least one is present, and none contradicts. `is_secure`: the server
    is reached by TLS, so a page without it is another site, also one of the same host.
    """
    schemes = ("https",) if is_secure else ("http", "https")
    origins, sites = _values(scope, b"origin"), _values(scope, b"sec-fetch-site")
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not (origins or sites):
        return False
    return all(_host_of(one, schemes) == hosts[0].lower() for one in origins) and all(
        one == "same-origin" for one in sites
    )


def _host_of(origin: str, schemes: Sequence[str]) -> str | None:
    try:
        found = urlsplit(origin)
    except ValueError:
        return None
    return found.netloc.lower() if found.scheme in schemes else None


def _values(scope: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in scope["headers"] if header.lower() == name]
