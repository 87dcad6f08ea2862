"""The address of a Conductor server, and the client's credentials. Does not use `httpx2`: commands need this
before they need that.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from podium.engines.conductor import DEFAULT_QUEUE, DEFAULT_URL
from podium.errors import InvalidConfiguration


class Connection(msgspec.Struct, frozen=True):
    """The address of a server, and the client's credentials. The URL is that of the server, without `/api`."""

    url: str = DEFAULT_URL
    queue: str = DEFAULT_QUEUE
    token: str | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "url", server_url(self.url))
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            # The token itself is not quoted: it would be refused, and shown, when it is sent.
            raise InvalidConfiguration(
                "the token for Conductor has characters that cannot be sent, such as a line break; check --token-file "
                "or PODIUM_CONDUCTOR_TOKEN"
            )

    def __repr__(self) -> str:
        """Omits the token."""
        return f"Connection({self.url!r}, {self.queue!r})"

    def facts(self) -> dict[str, Any]:
        """What is stored with a run, so that others find the server; contains no secrets."""
        return {"url": self.url, "queue": self.queue}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any], token: str | None) -> "Connection":
        """A connection to the server on which a run was started."""
        given = {name: facts[name] for name in ("url", "queue") if name in facts}
        return cls(**given, token=token)

    def worker_command(self) -> str:
        return f"podium worker --engine conductor --url {self.url} --queue {self.queue}"

    @property
    def place(self) -> str:
        return f"Conductor at {self.url}"


def server_url(given: str) -> str:
    """A normalized server URL. Raises `InvalidConfiguration` if it is not valid."""
    reason = _reason_against(given)
    if reason is not None:
        raise InvalidConfiguration(
            f"the URL of the Conductor server {reason}; give one like {DEFAULT_URL} (--url or PODIUM_CONDUCTOR_URL)"
        )
    return given.rstrip("/").removesuffix("/api").rstrip("/")


def _reason_against(given: str) -> str | None:
    try:
        parts = urlsplit(given)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return f"{given!r} is not valid"
    if parts.username is not None or parts.password is not None:
        # Not quoted, because that would show the password.
        return "must not contain a user or password (a token belongs in --token-file)"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        return f"{given!r} is not valid"
    if parts.query or parts.fragment or any(character.isspace() for character in given):
        return f"{given!r} is not valid"
    return None
