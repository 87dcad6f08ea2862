"""Who presents this token in a request: the store and the configuration know. Every cause of a refusal is the same.

A text that is not a token takes the same work as one that has expired, so that the time it takes shows nothing.
"""

from typing import Final

from podium.access.actors import Actor, Method
from podium.access.audit import AuditKey
from podium.access.grants import Grant, GrantAuthoriser
from podium.access.policy import AccessPolicy
from podium.access.stored_tokens import StoredToken, is_token, token_id_of
from podium.access.tokens import holder_of
from podium.log.ids import DEFAULT_TENANT
from podium.log.times import seconds_between, timestamp
from podium.operations.access import Access
from podium.ports.access_store import Tokens
from podium.ports.clock import Clock

# Asked for in the place of what is not a token.
_NO_TOKEN: Final = "0" * 16
_NOTED_EVERY_SECONDS: Final = 60


async def grant_of_token(store: Tokens, clock: Clock, policy: AccessPolicy | None, text: str) -> Grant | None:
    """What the token allows now; None for whatever reason it allows nothing."""
    found = await store.find_token(token_id_of(text) or _NO_TOKEN)
    is_stored = is_token(text, found)
    holder = holder_of(policy, text) if policy is not None else None
    now = timestamp(clock.now())
    if found is not None and is_stored and found.is_live(now):
        if found.last_used_at is None or seconds_between(found.last_used_at, now) > _NOTED_EVERY_SECONDS:
            await store.note_token_use(found.token_id, now)
        return grant_of(found)
    return configured_grant(policy, holder) if policy is not None and holder is not None else None


def grant_of(token: StoredToken) -> Grant:
    return Grant(
        actor=Actor(token.name, Method.TOKEN),
        tenant_id=token.tenant_id,
        roles=frozenset(token.roles),
        projects=frozenset(token.projects),
        credential=token.token_id,
        expires_at=token.expires_at,
    )


def configured_grant(policy: AccessPolicy, name: str) -> Grant | None:
    """A request has one tenant: a user with roles in several needs a token of the store for each."""
    tenants = [tenant for tenant, rules in policy.tenants.items() if rules.members.get(name)]
    if len(tenants) != 1:
        return None
    (tenant_id,) = tenants
    return Grant(
        actor=Actor(name, Method.TOKEN),
        tenant_id=tenant_id,
        roles=policy.tenants[tenant_id].members[name],
        credential=f"config:{name}",
    )


def access_by(grant: Grant, policy: AccessPolicy | None, key: AuditKey | None) -> Access:
    """With what use cases decide for this request. What concerns all tenants needs a role in `default`, too."""
    configured = frozenset(policy.tenants) if policy is not None else frozenset[str]()
    tenants = configured | {grant.tenant_id, DEFAULT_TENANT}
    return Access(grant.actor, GrantAuthoriser(grant), key, tenants, projects=grant.projects)
