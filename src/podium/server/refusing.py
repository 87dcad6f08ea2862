"""The answer to all unknown callers: the same bytes and the same time, whatever the cause.

A browser that requests a page gets the login form, which is the same for all of them, too.
"""

import asyncio
from typing import Any, Final

import msgspec

from podium.server.login_page import MEDIA_TYPE, POLICY, login_page

# Duration of every refusal, counted from the request: longer than any check takes.
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
    """`since`: when the request arrived, by the clock of the loop."""
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
    """True for a browser that navigates to a page, and not for a program or a script that calls the API."""
    accepts = b",".join(value for name, value in scope["headers"] if name.lower() == b"accept")
    return not scope["path"].startswith(_API) and b"text/html" in accepts.lower()
