"""Headers of every answer for browsers, whatever its handler sets. CORS is closed: no header opens it."""

from typing import Any, Final

PAGE_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# A handler that serves a page sets a policy of its own.
_DEFAULT: Final = (
    (b"content-security-policy", PAGE_POLICY.encode()),
    (b"cache-control", b"no-store"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")


class SecurityHeaders:
    def __init__(self, app: Any, *, is_secure: bool) -> None:
        self._app = app
        self._always = (*_ALWAYS, *([_STRICT_TRANSPORT] if is_secure else []))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._headers(message.get("headers", []))}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _headers(self, given: Any) -> list[tuple[bytes, bytes]]:
        fixed = {name for name, _ in self._always}
        kept = [(name, value) for name, value in given if name.lower() not in fixed]
        names = {name.lower() for name, _ in kept}
        return [*kept, *self._always, *(one for one in _DEFAULT if one[0] not in names)]
