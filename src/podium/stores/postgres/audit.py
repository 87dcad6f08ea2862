"""The audit log in SQL. Any user of the database may have written to it, so nothing that is read is trusted."""

from collections.abc import Sequence
from typing import Final

from podium.access.audit import AuditDraft, AuditHead, AuditRecord, ChainEnd, by_tenant, continued
from podium.stores import texts
from podium.stores.audit_problems import ChainProblems
from podium.stores.postgres.connections import Connection, Connections

_HEAD: Final = "SELECT seq, seal, head_seal, audit_key_id FROM audit_heads WHERE tenant_id = %s"
_NEWEST: Final = "SELECT seq, seal FROM audit_records WHERE tenant_id = %s ORDER BY seq DESC LIMIT 1"
_ADD: Final = """
INSERT INTO audit_records (tenant_id, seq, content, seal)
SELECT %s, * FROM unnest(%s::bigint[], %b::bytea[], %b::bytea[])
"""
_MOVE_HEAD: Final = """
INSERT INTO audit_heads (tenant_id, seq, seal, head_seal, audit_key_id) VALUES (%s, %s, %b, %b, %s)
ON CONFLICT (tenant_id) DO UPDATE
   SET seq = excluded.seq, seal = excluded.seal, head_seal = excluded.head_seal, audit_key_id = excluded.audit_key_id
"""
_READ: Final = (
    "SELECT seq, content, seal FROM audit_records WHERE tenant_id = %s AND seq > %s ORDER BY seq LIMIT %s"
)
_BEFORE_ALL: Final = -(2**63)
_PAGE: Final = 1000
_TENANTS: Final = (
    "SELECT tenant_id FROM audit_records UNION SELECT tenant_id FROM audit_heads ORDER BY tenant_id"
)


async def record(connections: Connections, connection: Connection, drafts: Sequence[AuditDraft]) -> None:
    """Part of a transaction. The lock is taken before anything is read, so the chain cannot grow after that."""
    for tenant_id, of_tenant in by_tenant(drafts).items():
        await connections.lock(connection, "audit", tenant_id)
        newest = await _newest(connection, tenant_id)
        records, head = continued(of_tenant, await _head(connection, tenant_id), newest)
        seqs, contents = [one.seq for one in records], [one.content for one in records]
        await connection.execute(
            _ADD, [tenant_id, seqs, contents, [bytes.fromhex(one.seal) for one in records]]
        )
        seals = (bytes.fromhex(head.seal), bytes.fromhex(head.head_seal))
        await connection.execute(_MOVE_HEAD, [tenant_id, head.seq, *seals, head.audit_key_id])


async def _newest(connection: Connection, tenant_id: str) -> ChainEnd | None:
    row = await (await connection.execute(_NEWEST, [tenant_id], binary=True)).fetchone()
    return ChainEnd(row[0], row[1].hex()) if row is not None else None


async def _head(connection: Connection, tenant_id: str) -> AuditHead | None:
    row = await (await connection.execute(_HEAD, [tenant_id], binary=True)).fetchone()
    if row is None:
        return None
    seq, seal, head_seal, key_id = row
    return AuditHead(tenant_id, seq, seal.hex(), head_seal.hex(), key_id)


async def _read(connection: Connection, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
    found = await connection.execute(_READ, [tenant_id, after, limit], binary=True)
    return [AuditRecord(tenant_id, seq, content, seal.hex()) for seq, content, seal in await found.fetchall()]


async def _tenants(connection: Connection) -> list[str]:
    return [tenant for (tenant,) in await (await connection.execute(_TENANTS)).fetchall()]


async def problems(connection: Connection) -> list[str]:
    """Called in a transaction with a consistent snapshot of the database."""
    found: list[str] = []
    for tenant_id in await _tenants(connection):
        chain = ChainProblems(tenant_id)
        after = _BEFORE_ALL
        while page := await _read(connection, tenant_id, after, _PAGE):
            found += [problem for record in page for problem in chain.add(record)]
            after = page[-1].seq
        found += chain.finish(await _head(connection, tenant_id))
    return found


class PostgresAudit:
    """The part of `PostgresStore` for the audit log."""

    _connections: Connections

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        texts.check_audit(drafts)
        if drafts:
            async with self._connections.writing() as connection:
                await record(self._connections, connection, drafts)

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        if not texts.could_be_kept(tenant_id):
            return []
        async with self._connections.lend() as connection:
            return await _read(connection, tenant_id, after, limit)

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        if not texts.could_be_kept(tenant_id):
            return None
        async with self._connections.lend() as connection:
            return await _head(connection, tenant_id)

    async def audit_tenants(self) -> list[str]:
        async with self._connections.lend() as connection:
            return await _tenants(connection)
