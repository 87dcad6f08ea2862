"""Tokens in SQL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from podium.access.stored_tokens import StoredToken
from podium.log.times import Timestamp
from podium.stores import texts
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.token_rows import COLUMNS, row_of, token_of

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

_ADD: Final = (
    f"INSERT INTO tokens ({COLUMNS}) VALUES (%s, %b, %s, %s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (token_id) DO NOTHING"
)
_FIND: Final = (
    f"SELECT {COLUMNS} FROM tokens WHERE token_id = %s AND NOT EXISTS (SELECT 1 FROM tenant_states AS s "
    "WHERE s.tenant_id = tokens.tenant_id AND s.closed_at IS NOT NULL)"
)
_LIST: Final = f"SELECT {COLUMNS} FROM tokens WHERE tenant_id = %s ORDER BY created_at, token_id"
_REMOVE: Final = "DELETE FROM tokens WHERE tenant_id = %s AND token_id = %s"
_USED: Final = "UPDATE tokens SET last_used_at = greatest(last_used_at, %s) WHERE token_id = %s"


async def _recorded(
    connections: Connections, connection: Connection, changed: int, drafts: "Sequence[AuditDraft]"
) -> bool:
    """Whether anything has changed; only then is the decision about it recorded."""
    if changed and drafts:
        from podium.stores.postgres import audit

        await audit.record(connections, connection, drafts)
    return changed > 0


class PostgresTokens:
    """The part of `PostgresStore` for tokens."""

    _connections: Connections

    async def add_token(
        self, token: "StoredToken", *, only_first: bool = False, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        texts.check_token(token)
        texts.check_audit(audit)
        # Of two servers that start concurrently only one creates the first token.
        locks = [self._connections.key("first-token")] if only_first else []
        async with self._connections.writing(*locks) as connection:
            if only_first and await (await connection.execute("SELECT 1 FROM tokens LIMIT 1")).fetchone():
                return False
            added = await connection.execute(_ADD, row_of(token))
            return await _recorded(self._connections, connection, added.rowcount, audit)

    async def find_token(self, token_id: str) -> "StoredToken | None":
        if not texts.could_be_kept(token_id):
            return None
        async with self._connections.lend() as connection:
            row = await (await connection.execute(_FIND, [token_id], binary=True)).fetchone()
        return token_of(row) if row is not None else None

    async def list_tokens(self, tenant_id: str) -> "list[StoredToken]":
        if not texts.could_be_kept(tenant_id):
            return []
        async with self._connections.lend() as connection:
            rows = await (await connection.execute(_LIST, [tenant_id], binary=True)).fetchall()
        return [token_of(row) for row in rows]

    async def remove_token(
        self, tenant_id: str, token_id: str, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        texts.check_audit(audit)
        if not texts.could_be_kept(tenant_id, token_id):
            return False
        async with self._connections.writing() as connection:
            removed = await connection.execute(_REMOVE, [tenant_id, token_id])
            return await _recorded(self._connections, connection, removed.rowcount, audit)

    async def note_token_use(self, token_id: str, at: Timestamp) -> None:
        texts.check_moment("the last use of a token", at)
        if texts.could_be_kept(token_id):
            async with self._connections.writing() as connection:
                await connection.execute(_USED, [at, token_id])
