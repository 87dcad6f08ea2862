"""Whether an actor may do something. The same function decides for every front end and every engine."""

from typing import Protocol

import msgspec

from podium.access.actors import Actor
from podium.access.operations import Operation
from podium.access.policy import AccessPolicy
from podium.access.roles import Role, with_included


class Denial(msgspec.Struct, frozen=True):
    """The reason: AUTHZ_TENANT_FORBIDDEN, AUTHZ_DENIED or AUTHZ_REASON_REQUIRED."""

    code: str
    text: str


class Authoriser(Protocol):
    def decide(self, actor: Actor, operation: Operation, tenant_id: str, reason: str = "") -> Denial | None:
        """None: allowed."""
        ...


class OwnerAuthoriser:
    """Without rules: the user of this machine may do everything, in every tenant."""

    def decide(self, actor: Actor, operation: Operation, tenant_id: str, reason: str = "") -> Denial | None:
        return _reason_missing(operation, reason)


class RoleAuthoriser:
    """Applies the rules of a policy. Actors who are not listed have no permissions, not even to see that a
    run exists.
    """

    def __init__(self, policy: AccessPolicy) -> None:
        self._policy = policy

    def decide(self, actor: Actor, operation: Operation, tenant_id: str, reason: str = "") -> Denial | None:
        return decide_by_roles(actor, self.roles(actor, tenant_id), operation, tenant_id, reason)

    def roles(self, actor: Actor, tenant_id: str) -> frozenset[Role]:
        rules = self._policy.tenants.get(tenant_id)
        return with_included(rules.members.get(actor.name, frozenset())) if rules is not None else frozenset()


class DenyingAuthoriser:
    """Used where no authoriser was chosen."""

    def decide(self, actor: Actor, operation: Operation, tenant_id: str, reason: str = "") -> Denial | None:
        return Denial("AUTHZ_DENIED", f"nothing allows {operation.name}: no authoriser was chosen")


def decide_by_roles(
    actor: Actor, roles: frozenset[Role], operation: Operation, tenant_id: str, reason: str
) -> Denial | None:
    """`roles`: the actor's in the tenant, including nested ones."""
    if not roles:
        return Denial("AUTHZ_TENANT_FORBIDDEN", f"{actor.name!r} has no role in tenant {tenant_id!r}")
    if operation.role not in roles:
        return Denial(
            "AUTHZ_DENIED",
            f"{operation.name} needs the role {operation.role.value!r}, and {actor.name!r} is "
            f"{', '.join(sorted(role.value for role in roles))} in tenant {tenant_id!r}",
        )
    return _reason_missing(operation, reason)


def _reason_missing(operation: Operation, reason: str) -> Denial | None:
    if operation.needs_reason and not reason.strip():
        return Denial("AUTHZ_REASON_REQUIRED", f"{operation.name} needs a reason: say why with --reason TEXT")
    return None
