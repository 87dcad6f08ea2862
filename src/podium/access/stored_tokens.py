"""Tokens known to the store: `podium_ID_SECRET`, with 256 random bits in SECRET. Only their SHA-256 is
stored.

ID finds the token and is not secret; the SHA-256 of the whole is compared in constant time. The prefix allows
scanners of source code and logs to find a leaked token.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from podium.access.roles import Role
from podium.log.times import Timestamp
from podium.patterns import lazy_pattern

PREFIX: Final = "podium_"
ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
_FORM: Final = lazy_pattern(r"podium_([0-9a-f]{16})_[0-9a-f]{64}")
# Digest of no token: an unknown one is compared with it, so that it takes as long.
_NO_DIGEST: Final = "0" * 64


class StoredToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The token's holder is `name` in one tenant, with these roles; `projects` empty: in all of its projects."""

    token_id: str
    sha256: str
    tenant_id: str
    name: str
    roles: tuple[Role, ...]
    projects: tuple[str, ...] = ()
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp | None = None
    # Accurate to a minute: not every request is recorded.
    last_used_at: Timestamp | None = None

    def __repr__(self) -> str:
        return f"StoredToken({self.token_id} of {self.name!r})"

    def is_live(self, now: Timestamp) -> bool:
        return self.expires_at is None or now < self.expires_at


def token_text(random_bytes: bytes) -> str:
    """A new token. `random_bytes`: ID_BYTES and SECRET_BYTES of them."""
    assert len(random_bytes) == ID_BYTES + SECRET_BYTES
    return f"{PREFIX}{random_bytes[:ID_BYTES].hex()}_{random_bytes[ID_BYTES:].hex()}"


def token_id_of(text: str) -> str | None:
    """None for a text that is not a token of a store."""
    found = _FORM.fullmatch(text)
    return found[1] if found is not None else None


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def is_token(text: str, found: StoredToken | None) -> bool:
    """Whether the text is this token. Takes the same time for every text, and if there is no token."""
    return hmac.compare_digest(digest_of(text), found.sha256 if found is not None else _NO_DIGEST)
