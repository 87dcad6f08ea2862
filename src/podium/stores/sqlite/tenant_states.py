"""Tenants that were created or closed, in SQL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from podium.access.tenants import TenantState
from podium.log.times import Timestamp
from podium.stores.sqlite.appending import record_audit

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


_STATE: Final = "SELECT closed_at, limit_before FROM tenant_states WHERE tenant_id = ?"
_LIMIT: Final = "SELECT most FROM limits WHERE tenant_id = ?1 AND scope = 'tenant' AND name = ?1"
_SET_LIMIT: Final = (
    "INSERT INTO limits (tenant_id, scope, name, most) VALUES (?1, 'tenant', ?1, ?2) "
    "ON CONFLICT (tenant_id, scope, name) DO UPDATE SET most = excluded.most"
)
_CLOSE: Final = (
    "INSERT INTO tenant_states (tenant_id, created_at, closed_at, limit_before) VALUES (?1, ?2, ?2, ?3) "
    "ON CONFLICT (tenant_id) DO UPDATE SET closed_at = excluded.closed_at, limit_before = excluded.limit_before"
)
_OPEN: Final = (
    "INSERT INTO tenant_states (tenant_id, created_at) VALUES (?, ?) "
    "ON CONFLICT (tenant_id) DO UPDATE SET closed_at = NULL, limit_before = NULL"
)


def open_(db: apsw.Connection, tenant_id: str, at: Timestamp, drafts: "Sequence[AuditDraft]") -> bool:
    state: Any = db.execute(_STATE, (tenant_id,)).fetchone()
    if state is not None and state[0] is None:
        return False
    if state is not None:
        db.execute("DELETE FROM limits WHERE tenant_id = ?1 AND scope = 'tenant' AND name = ?1", (tenant_id,))
        if state[1] is not None:
            db.execute(_SET_LIMIT, (tenant_id, state[1]))
    db.execute(_OPEN, (tenant_id, at))
    record_audit(db, drafts)
    return True


def close(db: apsw.Connection, tenant_id: str, at: Timestamp, drafts: "Sequence[AuditDraft]") -> bool:
    state: Any = db.execute(_STATE, (tenant_id,)).fetchone()
    if state is not None and state[0] is not None:
        return False
    before = db.execute(_LIMIT, (tenant_id,)).get
    db.execute(_CLOSE, (tenant_id, at, before))
    db.execute(_SET_LIMIT, (tenant_id, 0))
    record_audit(db, drafts)
    return True


def states(db: apsw.Connection) -> list[TenantState]:
    rows: Any = db.execute("SELECT tenant_id, created_at, closed_at FROM tenant_states ORDER BY tenant_id")
    return [
        TenantState(tenant_id=tenant, created_at=created, closed_at=closed)
        for tenant, created, closed in rows
    ]
