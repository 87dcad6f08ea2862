"""Tenants that were created or closed, in SQL. Each change holds the lock of its tenant, as claims do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from podium.access.tenants import TenantState
from podium.log.times import Timestamp
from podium.stores import texts
from podium.stores.postgres.connections import Connection, Connections

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

# For a new run: records that the tenant is known, and returns whether it is closed.
ADMIT: Final = """
WITH known AS (INSERT INTO tenants (tenant_id) VALUES (%(tenant)s) ON CONFLICT DO NOTHING)
SELECT FROM tenant_states WHERE tenant_id = %(tenant)s AND closed_at IS NOT NULL
"""
_STATE: Final = "SELECT closed_at, limit_before FROM tenant_states WHERE tenant_id = %s"
_LIMIT: Final = (
    "SELECT most FROM limits WHERE tenant_id = %(tenant)s AND scope = 'tenant' AND name = %(tenant)s"
)
_DROP_LIMIT: Final = (
    "DELETE FROM limits WHERE tenant_id = %(tenant)s AND scope = 'tenant' AND name = %(tenant)s"
)
_SET_LIMIT: Final = (
    "INSERT INTO limits (tenant_id, scope, name, most) VALUES (%(tenant)s, 'tenant', %(tenant)s, %(most)s) "
    "ON CONFLICT (tenant_id, scope, name) DO UPDATE SET most = excluded.most"
)
_CLOSE: Final = (
    "INSERT INTO tenant_states (tenant_id, created_at, closed_at, limit_before) "
    "VALUES (%(tenant)s, %(at)s, %(at)s, %(before)s) "
    "ON CONFLICT (tenant_id) DO UPDATE SET closed_at = excluded.closed_at, limit_before = excluded.limit_before"
)
_OPEN: Final = (
    "INSERT INTO tenant_states (tenant_id, created_at) VALUES (%(tenant)s, %(at)s) "
    "ON CONFLICT (tenant_id) DO UPDATE SET closed_at = NULL, limit_before = NULL"
)


async def _state(connection: Connection, tenant_id: str) -> Any:
    return await (await connection.execute(_STATE, [tenant_id])).fetchone()


async def _record(connections: Connections, connection: Connection, drafts: "Sequence[AuditDraft]") -> None:
    if drafts:
        from podium.stores.postgres import audit

        await audit.record(connections, connection, drafts)


class PostgresTenants:
    """The part of `PostgresStore` for tenants."""

    _connections: Connections

    async def open_tenant(self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()) -> bool:
        texts.check_tenant_change(tenant_id, at, audit)
        async with self._connections.writing(self._connections.key("tenant", tenant_id)) as connection:
            state = await _state(connection, tenant_id)
            if state is not None and state[0] is None:
                return False
            if state is not None:
                await connection.execute(_DROP_LIMIT, {"tenant": tenant_id})
                if state[1] is not None:
                    await connection.execute(_SET_LIMIT, {"tenant": tenant_id, "most": state[1]})
            await connection.execute(_OPEN, {"tenant": tenant_id, "at": at})
            await _record(self._connections, connection, audit)
        return True

    async def close_tenant(
        self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        texts.check_tenant_change(tenant_id, at, audit)
        async with self._connections.writing(self._connections.key("tenant", tenant_id)) as connection:
            state = await _state(connection, tenant_id)
            if state is not None and state[0] is not None:
                return False
            limit = await (await connection.execute(_LIMIT, {"tenant": tenant_id})).fetchone()
            before = limit[0] if limit is not None else None
            await connection.execute(_CLOSE, {"tenant": tenant_id, "at": at, "before": before})
            await connection.execute(_SET_LIMIT, {"tenant": tenant_id, "most": 0})
            await _record(self._connections, connection, audit)
        return True

    async def tenant_states(self) -> "list[TenantState]":
        sql = "SELECT tenant_id, created_at, closed_at FROM tenant_states ORDER BY tenant_id"
        async with self._connections.lend() as connection:
            rows = await (await connection.execute(sql)).fetchall()
        return [
            TenantState(tenant_id=tenant, created_at=created, closed_at=closed)
            for tenant, created, closed in rows
        ]
