"""The permissions of a credential in an HTTP request: roles in one tenant, and in some of its projects."""

import msgspec

from podium.access.actors import Actor
from podium.access.deciding import Denial, decide_by_roles
from podium.access.operations import Operation
from podium.access.roles import Role, with_included
from podium.access.sessions import Credential
from podium.log.times import Timestamp


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The identity and permissions of the caller, while the credential is valid. Checked for every request."""

    actor: Actor
    tenant_id: str
    roles: frozenset[Role]
    # Empty: all projects of the tenant.
    projects: frozenset[str] = frozenset()
    # What ends it when it is removed, or allows something else.
    credential: Credential
    # Of the session that it is used by: the SHA-256 of its secret.
    session: str | None = None
    expires_at: Timestamp | None = None


class GrantAuthoriser:
    """Decides by the roles of one credential, in its tenant only."""

    def __init__(self, grant: Grant) -> None:
        self._tenant_id = grant.tenant_id
        self._roles = with_included(grant.roles)

    def decide(self, actor: Actor, operation: Operation, tenant_id: str, reason: str = "") -> Denial | None:
        roles = self._roles if tenant_id == self._tenant_id else frozenset[Role]()
        return decide_by_roles(actor, roles, operation, tenant_id, reason)
