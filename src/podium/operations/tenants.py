"""Tenants: creating, closing and reopening them. A closed tenant has no working tokens and starts nothing;
its log is kept.

Owners of the tenant `default` manage all tenants; if the rules do not have it, owners of every tenant do.
Owners of one tenant may see and close it.
"""

from podium.access.operations import CLOSE_TENANT, OPEN_TENANT, OperationName
from podium.access.roles import Role
from podium.access.tenants import TenantState
from podium.errors import PodiumError
from podium.log.ids import DEFAULT_TENANT, check_id
from podium.log.times import timestamp
from podium.operations.parts import Parts
from podium.operations.tokens import MadeToken, NewToken, add_token


class TenantRefused(PodiumError):
    """An invalid change of a tenant: opening an open one, or closing `default`."""

    code = "TENANT_REFUSED"


async def list_tenants(parts: Parts, tenant_id: str) -> list[TenantState]:
    """Tenants that were created or closed: all of them for requests in `default`, else only this one."""
    if tenant_id == DEFAULT_TENANT:
        await _require_for_all(parts, "tenant.list")
        return await parts.store.tenant_states()
    await parts.require("tenant.list", tenant_id)
    return [one for one in await parts.store.tenant_states() if one.tenant_id == tenant_id]


async def open_tenant(parts: Parts, tenant_id: str, owner: str | None = None) -> MadeToken | None:
    """Create or reopen a tenant. `owner`: the name of a first token for it, with the roles owner and admin.

    Raises `NotAllowed`, `TenantForbidden`, `InvalidId` and `TenantRefused`.
    """
    await _require_for_all(parts, "tenant.open")
    check_id("tenant_id", tenant_id)
    if owner is not None:
        check_id("the name of a token", owner)
    draft = parts.access().draft(parts.clock, OPEN_TENANT.name, DEFAULT_TENANT, subject=f"tenant {tenant_id}")
    if not await parts.store.open_tenant(tenant_id, timestamp(parts.clock.now()), audit=[draft]):
        raise TenantRefused(f"tenant {tenant_id!r} is open; `podium tenant list` lists tenants")
    if owner is None:
        return None
    new = NewToken(name=owner, tenant_id=tenant_id, roles=(Role.OWNER, Role.ADMIN))
    return await add_token(parts, new, is_decided=True)


async def close_tenant(parts: Parts, tenant_id: str) -> None:
    """Raises `NotAllowed`, `TenantForbidden`, `InvalidId` and `TenantRefused`. Closing it again changes nothing."""
    if not _manages_all(parts, "tenant.close"):
        await parts.require("tenant.close", tenant_id, records=False)
    check_id("tenant_id", tenant_id)
    if tenant_id == DEFAULT_TENANT:
        raise TenantRefused("the tenant 'default' cannot be closed: its owners manage all tenants")
    draft = parts.access().draft(parts.clock, CLOSE_TENANT.name, tenant_id, subject=f"tenant {tenant_id}")
    await parts.store.close_tenant(tenant_id, timestamp(parts.clock.now()), audit=[draft])


async def _require_for_all(parts: Parts, operation: OperationName) -> None:
    if _has_default(parts):
        await parts.require(operation, DEFAULT_TENANT, records=False)
    else:
        await parts.require_everywhere(operation)


def _manages_all(parts: Parts, operation: OperationName) -> bool:
    if parts.is_owner or _has_default(parts):
        return parts.allows(operation, DEFAULT_TENANT)
    return all(parts.allows(operation, tenant) for tenant in parts.access().tenants or ())


def _has_default(parts: Parts) -> bool:
    tenants = parts.access().tenants
    return tenants is None or DEFAULT_TENANT in tenants
