"""Tokens: their holder is the user for whom the configuration lists the SHA-256."""

import hashlib
import hmac

from podium.access.policy import AccessPolicy


def holder_of(policy: AccessPolicy, token: str) -> str | None:
    """The name of the user, or None. Every listed token is compared, in constant time."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for listed, name in policy.tokens.items():
        if hmac.compare_digest(digest, listed):
            found = name
    return found
