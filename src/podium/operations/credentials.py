"""Identifies the holder of a token in a request, from the store and the configuration. All causes of a
refusal look the same.

A text that is not a token takes the same work as an expired token, so that response times reveal nothing.
"""

from typing import Final

from podium.access.actors import Actor, Method
from podium.access.audit import AuditKey
from podium.access.grants import Grant, GrantAuthoriser
from podium.access.policy import AccessPolicy
from podium.access.sessions import ConfiguredCredential, TokenCredential
from podium.access.stored_tokens import StoredToken, digest_of, is_token, token_id_of
from podium.access.tokens import holder_of
from podium.log.ids import DEFAULT_TENANT
from podium.log.times import seconds_between, timestamp
from podium.operations.access import Access
from podium.ports.access_store import Credentials, Tenants
from podium.ports.clock import Clock

# Looked up instead of a text that is not a token.
_NO_TOKEN: Final = "0" * 16
_NOTED_EVERY_SECONDS: Final = 60


async def grant_of_token(
    store: Credentials, clock: Clock, policy: AccessPolicy | None, text: str
) -> Grant | None:
    """The current permissions of the token; None if it has none, for whatever reason."""
    found = await store.find_token(token_id_of(text) or _NO_TOKEN)
    is_stored = is_token(text, found)
    is_configured = policy is not None and holder_of(policy, text) is not None
    now = timestamp(clock.now())
    if found is not None and is_stored and found.is_live(now):
        if found.last_used_at is None or seconds_between(found.last_used_at, now) > _NOTED_EVERY_SECONDS:
            await store.note_token_use(found.token_id, now)
        return grant_of(found)
    grant = configured_grant(policy, digest_of(text)) if policy is not None and is_configured else None
    return await in_open_tenant(store, grant)


async def in_open_tenant(store: Tenants, grant: Grant | None) -> Grant | None:
    """Nothing is allowed in a closed tenant. Tokens of the store are not found there."""
    if grant is None:
        return None
    states = await store.tenant_states()
    is_closed = any(one.closed_at is not None for one in states if one.tenant_id == grant.tenant_id)
    return None if is_closed else grant


def grant_of(token: StoredToken) -> Grant:
    return Grant(
        actor=Actor(token.name, Method.TOKEN),
        tenant_id=token.tenant_id,
        roles=frozenset(token.roles),
        projects=frozenset(token.projects),
        credential=TokenCredential(token.token_id),
        expires_at=token.expires_at,
    )


def configured_grant(policy: AccessPolicy, sha256: str) -> Grant | None:
    """Of a token that is listed. A request has one tenant: a user with roles in several needs a token of the store for
    each.
    """
    name = policy.tokens.get(sha256)
    tenants = [tenant for tenant, rules in policy.tenants.items() if rules.members.get(name or "")]
    if name is None or len(tenants) != 1:
        return None
    (tenant_id,) = tenants
    return Grant(
        actor=Actor(name, Method.TOKEN),
        tenant_id=tenant_id,
        roles=policy.tenants[tenant_id].members[name],
        credential=ConfiguredCredential(sha256),
    )


def access_by(grant: Grant, policy: AccessPolicy | None, key: AuditKey | None) -> Access:
    """The access for the use cases of this request. Operations on all tenants need a role in `default`, too."""
    configured = frozenset(policy.tenants) if policy is not None else frozenset[str]()
    tenants = configured | {grant.tenant_id, DEFAULT_TENANT}
    return Access(grant.actor, GrantAuthoriser(grant), key, tenants, projects=grant.projects)
