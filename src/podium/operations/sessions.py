"""Sessions of browsers: started with a token, a link or an identity provider; they end with what they depend
on.
"""

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from podium.access.actors import Actor, Method
from podium.access.audit import AuditDraft
from podium.access.deciding import OwnerAuthoriser
from podium.access.grants import Grant
from podium.access.oidc import OidcRules, grant_of_login
from podium.access.operations import ADD_TOKEN
from podium.access.policy import AccessPolicy
from podium.access.roles import Role
from podium.access.sessions import (
    CODE_LIFETIME,
    SESSION_LIFETIME,
    ConfiguredCredential,
    Credential,
    LoginCode,
    LoginCredential,
    StoredSession,
    TokenCredential,
)
from podium.access.stored_tokens import (
    ID_BYTES,
    SECRET_BYTES,
    StoredToken,
    digest_of,
    is_token,
    token_id_of,
    token_text,
)
from podium.log.ids import DEFAULT_TENANT
from podium.log.times import Timestamp, timestamp
from podium.operations.access import Access
from podium.operations.credentials import configured_grant, grant_of, grant_of_token, in_open_tenant
from podium.patterns import lazy_pattern
from podium.ports.access_store import Credentials
from podium.ports.clock import Clock

RandomBytes = Callable[[int], bytes]
_SECRET: Final = lazy_pattern(r"[0-9a-f]{64}")
# Looked up instead of a text that is not a secret.
_NO_SECRET: Final = "0" * 64
_FIRST_NAME: Final = "owner"
# All permissions: the user of a laptop is alone. `viewer`, `operator`, `engineer` and `auditor` are included.
_FIRST_ROLES: Final = (Role.ADMIN, Role.APPROVER, Role.AUTHOR, Role.OWNER, Role.SYSTEM)


class Session(msgspec.Struct, frozen=True):
    """`secret` is for the cookie; no store contains it."""

    secret: str
    grant: Grant

    def __repr__(self) -> str:
        return f"Session({self.grant.credential})"


async def start_session(
    store: Credentials,
    clock: Clock,
    grant: Grant,
    random_bytes: RandomBytes = secrets.token_bytes,
) -> Session | None:
    """None if the credential has been removed since. It lasts 12 hours, or less if the credential expires
    earlier.
    """
    now = clock.now()
    end = timestamp(now + SESSION_LIFETIME)
    end = min(end, grant.expires_at) if grant.expires_at is not None else end
    secret = random_bytes(SECRET_BYTES).hex()
    session = StoredSession(sha256=digest_of(secret), credential=grant.credential, expires_at=end)
    is_added = await store.add_session(session, now=timestamp(now))
    return Session(secret, grant) if is_added else None


async def log_in_with_token(
    store: Credentials, clock: Clock, policy: AccessPolicy | None, text: str
) -> Session | None:
    grant = await grant_of_token(store, clock, policy, text)
    if grant is None:
        return None
    return await start_session(store, clock, grant)


async def log_in_with_code(store: Credentials, clock: Clock, code: str) -> Session | None:
    """A code is valid for one session."""
    found = await store.take_login_code(digest_of(code if _SECRET.fullmatch(code) else _NO_SECRET))
    now = timestamp(clock.now())
    if found is None or found.expires_at <= now:
        return None
    token = await store.find_token(found.token_id)
    if token is None or not token.is_live(now):
        return None
    return await start_session(store, clock, grant_of(token))


async def log_in_with_provider(
    store: Credentials, clock: Clock, rules: OidcRules, name: str, groups: tuple[str, ...]
) -> Session | None:
    grant = await in_open_tenant(store, grant_of_login(rules, name, groups))
    return await start_session(store, clock, grant) if grant is not None else None


async def grant_of_session(
    store: Credentials, clock: Clock, policy: AccessPolicy | None, oidc: OidcRules | None, secret: str
) -> Grant | None:
    """The current permissions of the session, and until when: what it was started with is checked again."""
    digest = digest_of(secret if _SECRET.fullmatch(secret) else _NO_SECRET)
    return await grant_of_kept_session(store, clock, policy, oidc, digest)


async def grant_of_kept_session(
    store: Credentials, clock: Clock, policy: AccessPolicy | None, oidc: OidcRules | None, sha256: str
) -> Grant | None:
    """`sha256`: of its secret."""
    found = await store.find_session(sha256)
    now = timestamp(clock.now())
    if found is None or found.expires_at <= now:
        return None
    grant = await grant_of_credential(store, now, policy, oidc, found.credential)
    if grant is None:
        return None
    expires_at = min(found.expires_at, grant.expires_at or found.expires_at)
    return msgspec.structs.replace(grant, expires_at=expires_at, session=sha256)


async def grant_of_credential(
    store: Credentials,
    now: Timestamp,
    policy: AccessPolicy | None,
    oidc: OidcRules | None,
    credential: Credential,
) -> Grant | None:
    """What it allows now."""
    grant: Grant | None = None
    match credential:
        case TokenCredential(token_id):
            token = await store.find_token(token_id)
            return grant_of(token) if token is not None and token.is_live(now) else None
        case ConfiguredCredential(sha256):
            grant = configured_grant(policy, sha256) if policy is not None else None
        case LoginCredential(issuer, name, groups):
            is_current = oidc is not None and oidc.issuer == issuer
            grant = grant_of_login(oidc, name, groups) if oidc is not None and is_current else None
    return await in_open_tenant(store, grant)


async def end_session(store: Credentials, secret: str) -> None:
    await store.remove_session(digest_of(secret))


async def first_login(
    store: Credentials, clock: Clock, random_bytes: RandomBytes = secrets.token_bytes
) -> str | None:
    """On the first start: creates the owner's token and returns the code of a link that starts one session
    with it.

    None if the store has tokens. The token itself is discarded: it could not be printed without leaving it in
    a log.
    """
    now = clock.now()
    text = token_text(random_bytes(ID_BYTES + SECRET_BYTES))
    token = StoredToken(
        token_id=token_id_of(text) or "",
        sha256=digest_of(text),
        tenant_id=DEFAULT_TENANT,
        name=_FIRST_NAME,
        roles=_FIRST_ROLES,
        created_at=timestamp(now),
        created_by="first start",
    )
    assert is_token(text, token)
    if not await store.add_token(token, only_first=True, audit=[_first_draft(clock, token)]):
        return None
    code = random_bytes(SECRET_BYTES).hex()
    expires = timestamp(now + CODE_LIFETIME)
    login = LoginCode(sha256=digest_of(code), token_id=token.token_id, expires_at=expires)
    return code if await store.add_login_code(login) else None


def _first_draft(clock: Clock, token: StoredToken) -> AuditDraft:
    access = Access(Actor(_FIRST_NAME, Method.PROGRAM), OwnerAuthoriser())
    subject = f"token {token.token_id} of {token.name}: {', '.join(token.roles)}"
    return access.draft(clock, ADD_TOKEN.name, token.tenant_id, subject=subject)
