"""Cookies: inaccessible to scripts, never sent by another site, and only sent over TLS where there is TLS."""

from datetime import timedelta
from typing import Any, Final

from podium.access.sessions import SESSION_LIFETIME

_MAX_BYTES: Final = 8192
_ATTEMPT_LIFETIME: Final = timedelta(minutes=10)


class Cookie:
    """`is_secure`: the server is reached by TLS, its own or that of a proxy. False on loopback."""

    def __init__(self, name: str, lifetime: timedelta, same_site: str, *, is_secure: bool) -> None:
        # Browsers accept `__Host-` only over TLS, for this host and for all paths, so another host cannot set
        # one.
        self.name = f"__Host-{name}" if is_secure else name
        seconds = int(lifetime.total_seconds())
        secure = "; Secure" if is_secure else ""
        self._rules = f"; Max-Age={seconds}; Path=/; HttpOnly; SameSite={same_site}{secure}"

    def setting(self, value: str) -> str:
        return f"{self.name}={value}{self._rules}"

    def clearing(self) -> str:
        return f"{self.name}=; Max-Age=0; Path=/"

    def read(self, scope: Any) -> str | None:
        """Two cookies with one name are ignored, because one of them was planted."""
        given = b";".join(value for header, value in scope["headers"] if header.lower() == b"cookie")
        if len(given) > _MAX_BYTES:
            return None
        parts = (part.strip().partition("=") for part in given.decode("latin-1").split(";"))
        values = [value for name, _, value in parts if name == self.name]
        return values[0] if len(values) == 1 else None


class SessionCookie(Cookie):
    def __init__(self, *, is_secure: bool) -> None:
        super().__init__("podium", SESSION_LIFETIME, "Strict", is_secure=is_secure)


class AttemptCookie(Cookie):
    """Cookie of a login in progress. The identity provider redirects the browser back, which is a navigation
    from another site.
    """

    def __init__(self, *, is_secure: bool) -> None:
        super().__init__("podium-login", _ATTEMPT_LIFETIME, "Lax", is_secure=is_secure)
