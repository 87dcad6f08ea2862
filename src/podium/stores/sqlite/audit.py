"""The audit log in SQL. Any program may have written to it, so nothing that is read is trusted."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw

from podium.access.audit import AuditDraft, AuditHead, AuditRecord, ChainEnd, by_tenant, continued
from podium.stores.audit_problems import ChainProblems

_HEAD: Final = "SELECT seq, seal, head_seal, audit_key_id FROM audit_heads WHERE tenant_id = ?"
_NEWEST: Final = "SELECT seq, seal FROM audit_records WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_ADD: Final = "INSERT INTO audit_records (tenant_id, seq, content, seal) VALUES (?, ?, ?, ?)"
_MOVE_HEAD: Final = (
    "INSERT INTO audit_heads (tenant_id, seq, seal, head_seal, audit_key_id) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (tenant_id) DO UPDATE SET seq = excluded.seq, seal = excluded.seal, head_seal = excluded.head_seal, "
    "audit_key_id = excluded.audit_key_id"
)
_READ: Final = (
    "SELECT seq, content, seal FROM audit_records WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?"
)
_BEFORE_ALL: Final = -(2**63)
_ALL: Final = -1
_TENANTS: Final = (
    "SELECT CAST(tenant_id AS BLOB) FROM audit_records UNION SELECT CAST(tenant_id AS BLOB) FROM audit_heads"
)


def record(db: apsw.Connection, drafts: Sequence[AuditDraft]) -> None:
    """Part of a write transaction: there is one at a time, so no other process can extend the chain."""
    for tenant_id, of_tenant in by_tenant(drafts).items():
        records, moved = continued(of_tenant, head(db, tenant_id), _newest(db, tenant_id))
        db.executemany(_ADD, [(tenant_id, one.seq, one.content, bytes.fromhex(one.seal)) for one in records])
        seals = (bytes.fromhex(moved.seal), bytes.fromhex(moved.head_seal))
        db.execute(_MOVE_HEAD, (tenant_id, moved.seq, *seals, moved.audit_key_id))


def _newest(db: apsw.Connection, tenant_id: str) -> ChainEnd | None:
    row = db.execute(_NEWEST, (tenant_id,)).fetchone()
    return ChainEnd(row[0], row[1].hex()) if row is not None else None


def read(db: apsw.Connection, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
    return list(_rows(db, tenant_id, after, limit))


def _rows(
    db: apsw.Connection, tenant_id: str, after: int = _BEFORE_ALL, limit: int = _ALL
) -> Iterator[AuditRecord]:
    rows: Any = db.execute(_READ, (tenant_id, after, limit))
    return (AuditRecord(tenant_id, seq, content, seal.hex()) for seq, content, seal in rows)


def head(db: apsw.Connection, tenant_id: str) -> AuditHead | None:
    row: Any = db.execute(_HEAD, (tenant_id,)).fetchone()
    if row is None:
        return None
    seq, seal, head_seal, key_id = row
    return AuditHead(tenant_id, seq, seal.hex(), head_seal.hex(), key_id)


def tenants(db: apsw.Connection) -> list[str]:
    return sorted(bytes(tenant).decode(errors="replace") for (tenant,) in db.execute(_TENANTS))


def problems(db: apsw.Connection) -> Iterator[str]:
    """The caller has opened a transaction, so that records and heads are consistent."""
    for tenant_id in tenants(db):
        chain = ChainProblems(tenant_id)
        for one in _rows(db, tenant_id):
            yield from chain.add(one)
        yield from chain.finish(head(db, tenant_id))
