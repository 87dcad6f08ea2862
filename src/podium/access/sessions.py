"""Sessions of browsers, and the codes of links that start one.

A session has no permissions of its own: it refers to a credential, which is checked again for every request.
Removing the token from the store or the configuration, or removing the identity provider, ends it with the
next request.
"""

from datetime import timedelta
from typing import Final

import msgspec

from podium.log.times import Timestamp

SESSION_LIFETIME: Final = timedelta(hours=12)
CODE_LIFETIME: Final = timedelta(hours=1)


class TokenCredential(msgspec.Struct, frozen=True, tag="token"):
    """A token of the store."""

    token_id: str


class ConfiguredCredential(msgspec.Struct, frozen=True, tag="config"):
    """A token of the configuration file."""

    sha256: str


class LoginCredential(msgspec.Struct, frozen=True, tag="login"):
    """An identity provider's statement about a user. The meaning of the groups is decided for every request."""

    issuer: str
    name: str
    groups: tuple[str, ...]


Credential = TokenCredential | ConfiguredCredential | LoginCredential
_decoder: Final = msgspec.json.Decoder(Credential)


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """`sha256`: that of the secret in the cookie, which no store contains."""

    sha256: str
    credential: Credential
    expires_at: Timestamp

    def __repr__(self) -> str:
        return f"StoredSession({type(self.credential).__name__})"


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    """The code of a link that is valid for one session of a token."""

    sha256: str
    token_id: str
    expires_at: Timestamp


def credential_name(credential: Credential) -> str:
    """Different for different holders; it shows no secret."""
    match credential:
        case TokenCredential(token_id):
            return token_id
        case ConfiguredCredential(sha256):
            return f"config:{sha256}"
        case LoginCredential(_, name, _):
            return f"login:{name}"


def encode_credential(credential: Credential) -> bytes:
    return msgspec.json.encode(credential)


def decode_credential(content: bytes) -> Credential:
    found: Credential = _decoder.decode(content)
    return found


def token_of_session(credential: Credential) -> str | None:
    """The id of the stored token whose removal ends the session."""
    return credential.token_id if isinstance(credential, TokenCredential) else None
