"""The one answer to everyone who is not known: the same bytes and the same time, whatever the cause.

A browser that asks for a page gets the login form; it is the same for all of them, too.
"""

import asyncio
from typing import Any, Final

import msgspec

from podium.server.login_page import MEDIA_TYPE, POLICY, login_page

# Of every refusal, counted from the request: more than finding out takes.
REFUSAL_SECONDS: Final = 0.01
UNAUTHENTICATED: Final = "UNAUTHENTICATED"
_BODY: Final = msgspec.json.encode(
    {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "code": UNAUTHENTICATED,
        "detail": "a valid token is required",
        "valid": "send the header `Authorization: Bearer TOKEN`; `podium token add` makes a token",
    }
)
_API: Final = "/api/"


async def wait_as_refused(since: float) -> None:
    """`since`: by the clock of the loop, when the request came."""
    await asyncio.sleep(max(0.0, since + REFUSAL_SECONDS - asyncio.get_running_loop().time()))


async def refuse(scope: Any, send: Any, since: float, *, has_provider: bool = False) -> None:
    await wait_as_refused(since)
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    is_page = wants_page(scope)
    body = login_page(has_provider=has_provider) if is_page else _BODY
    headers = [
        (b"content-type", MEDIA_TYPE.encode() if is_page else b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b'Bearer realm="podium"'),
        (b"cache-control", b"no-store"),
        *([(b"content-security-policy", POLICY.encode())] if is_page else []),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def wants_page(scope: Any) -> bool:
    """A browser that was led to a page, and not a program or a script that calls the API."""
    accepts = b",".join(value for name, value in scope["headers"] if name.lower() == b"accept")
    return not scope["path"].startswith(_API) and b"text/html" in accepts.lower()
