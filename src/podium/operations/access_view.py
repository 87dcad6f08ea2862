"""The identity of an actor, how it was authenticated, and its permissions in each tenant."""

from collections.abc import Mapping

import msgspec

from podium.access.actors import Actor, Method
from podium.access.operations import NAMED, SIGNALS, Operation
from podium.access.policy import AccessPolicy
from podium.log.ids import check_id
from podium.operations.access import Access

# A reason is only required when something is done; here the check assumes one.
_SOME_REASON = "any"


class TenantAccess(msgspec.Struct, frozen=True):
    # As configured; a role may include others.
    roles: tuple[str, ...]
    # By the name of the operation.
    operations: Mapping[str, bool]


class AccessView(msgspec.Struct, frozen=True, omit_defaults=True):
    actor: str
    # How the actor was authenticated; None for an actor other than the caller.
    method: str | None
    has_rules: bool
    tenants: Mapping[str, TenantAccess]
    uid: int | None = None


def all_operations() -> tuple[Operation, ...]:
    return (*NAMED.values(), *SIGNALS.values())


def describe_access(
    access: Access, policy: AccessPolicy | None, name: str | None = None, tenant_id: str | None = None
) -> AccessView:
    """The access of the caller, or of the actor with this name; in one tenant, or in all in which the actor
    has a role.
    """
    if name is not None:
        check_id("actor", name)
    actor = access.actor if name is None else Actor(name, Method.PROGRAM)
    tenants = (
        {}
        if policy is None
        else {one: _in_tenant(access, policy, actor, one) for one in _tenants(policy, tenant_id)}
    )
    return AccessView(
        actor=actor.name,
        method=actor.method.value if name is None else None,
        has_rules=policy is not None,
        tenants={one: found for one, found in tenants.items() if found.roles or one == tenant_id},
        uid=actor.uid,
    )


def _tenants(policy: AccessPolicy, tenant_id: str | None) -> list[str]:
    return sorted(policy.tenants) if tenant_id is None else [tenant_id]


def _in_tenant(access: Access, policy: AccessPolicy, actor: Actor, tenant_id: str) -> TenantAccess:
    rules = policy.tenants.get(tenant_id)
    roles = sorted(rules.members.get(actor.name, ())) if rules is not None else []
    allowed = {
        one.name: access.authoriser.decide(actor, one, tenant_id, _SOME_REASON) is None
        for one in all_operations()
    }
    return TenantAccess(tuple(roles), allowed)
