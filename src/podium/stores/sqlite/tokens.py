"""Tokens in SQL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import apsw

from podium.access.stored_tokens import StoredToken
from podium.log.times import Timestamp
from podium.stores.sqlite.appending import record_audit
from podium.stores.token_rows import COLUMNS, row_of, token_of

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


_ADD: Final = (
    f"INSERT INTO tokens ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (token_id) DO NOTHING"
)
_FIND: Final = (
    f"SELECT {COLUMNS} FROM tokens WHERE token_id = ? AND NOT EXISTS (SELECT 1 FROM tenant_states AS s "
    "WHERE s.tenant_id = tokens.tenant_id AND s.closed_at IS NOT NULL)"
)
_LIST: Final = f"SELECT {COLUMNS} FROM tokens WHERE tenant_id = ? ORDER BY created_at, token_id"
_USED: Final = "UPDATE tokens SET last_used_at = max(coalesce(last_used_at, ?1), ?1) WHERE token_id = ?2"


def add(db: apsw.Connection, token: StoredToken, only_first: bool, drafts: "Sequence[AuditDraft]") -> bool:
    if only_first and db.execute("SELECT 1 FROM tokens LIMIT 1").fetchone() is not None:
        return False
    db.execute(_ADD, row_of(token))
    return _recorded(db, drafts)


def find(db: apsw.Connection, token_id: str) -> StoredToken | None:
    row = db.execute(_FIND, (token_id,)).fetchone()
    return token_of(row) if row is not None else None


def list_all(db: apsw.Connection, tenant_id: str) -> list[StoredToken]:
    return [token_of(row) for row in db.execute(_LIST, (tenant_id,))]


def remove(db: apsw.Connection, tenant_id: str, token_id: str, drafts: "Sequence[AuditDraft]") -> bool:
    db.execute("DELETE FROM tokens WHERE tenant_id = ? AND token_id = ?", (tenant_id, token_id))
    return _recorded(db, drafts)


def note_use(db: apsw.Connection, token_id: str, at: Timestamp) -> None:
    db.execute(_USED, (at, token_id))


def _recorded(db: apsw.Connection, drafts: "Sequence[AuditDraft]") -> bool:
    """Whether the previous statement changed anything; only then is the decision about it recorded."""
    has_changed = db.changes() > 0
    if has_changed:
        record_audit(db, drafts)
    return has_changed
