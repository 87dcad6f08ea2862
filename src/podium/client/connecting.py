"""How both clients reach the server: its address, the token, and settings for `httpx2`."""

import contextlib
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from podium.client.call import Call
from podium.client.errors import ServerUnreachable
from podium.client.exchange import Received
from podium.errors import InvalidConfiguration
from podium.text import without_credentials
from podium.version import __version__

try:
    import httpx2
except ModuleNotFoundError as error:
    raise ImportError("podium.client needs an optional package: pip install 'podium[client]'") from error

# A broken connection, a timeout or a broken answer.
FAILURES: Final = (httpx2.TransportError, httpx2.DecodingError)
# The server sends a comment every 15 seconds, so a stream that is silent for longer is broken.
SILENCE_SECONDS: Final = 60.0


def blocking_client(url: str, token: str, timeout: float) -> httpx2.Client:
    return httpx2.Client(**_options(url, token, timeout))


def async_client(url: str, token: str, timeout: float) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(**_options(url, token, timeout))


def _options(url: str, token: str, timeout: float) -> dict[str, Any]:
    """No redirects: the token is for this server only."""
    parts = _checked(url)
    return {
        "base_url": url.rstrip("/"),
        "headers": {
            "Authorization": f"Bearer {_checked_token(token)}",
            "User-Agent": f"podium/{__version__}",
        },
        "timeout": timeout,
        "follow_redirects": False,
        # Proxies of the environment are not used for this machine.
        "trust_env": not _is_loopback(parts.hostname or ""),
    }


def request_options(call: Call[Any]) -> dict[str, Any]:
    content = call.content
    kind = {"Content-Type": "application/json"} if content is not None else {}
    return {
        "method": call.method,
        "url": call.url,
        "params": dict(call.query),
        "headers": {"Accept": "*/*" if call.answer is bytes else "application/json", **kind, **call.headers},
        "content": content,
    }


def stream_options(call: Call[Any], timeout: float) -> dict[str, Any]:
    limits = httpx2.Timeout(timeout, read=max(SILENCE_SECONDS, timeout))
    return {**request_options(call), "timeout": limits}


def received(response: httpx2.Response) -> Received:
    """From an answer whose body was read."""
    return Received(response.status_code, response.headers, response.content)


def unreachable(call: Call[Any], base: object, error: Exception) -> ServerUnreachable:
    reason = without_credentials(str(error)) or type(error).__name__
    return ServerUnreachable(
        f"no answer to {call.method} {call.url} from {base}: {reason}; is the server running, and is this its address?"
    )


def _checked(url: str) -> SplitResult:
    """A user name or password in the address would appear in messages."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        is_plain = "@" not in parts.netloc and not parts.query and not parts.fragment
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and is_plain:
            return parts
    raise InvalidConfiguration(
        "the address of the server cannot be used: write http://HOST:PORT or https://HOST, without a user, a query or "
        "a fragment"
    )


def _checked_token(token: str) -> str:
    """Never shown, not even in the message about it."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidConfiguration("the token cannot be used: pass it as `podium token add` printed it")
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
