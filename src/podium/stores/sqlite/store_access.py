"""Access control: the audit log, tokens, sessions and tenants.

The statements are in `audit.py`, `tokens.py`, `sessions.py` and `tenant_states.py`, imported on first use.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podium.log.times import Timestamp
from podium.stores import texts
from podium.stores.sqlite.appending import record_audit
from podium.stores.sqlite.store_base import SqliteBase

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord
    from podium.access.sessions import LoginCode, StoredSession
    from podium.access.stored_tokens import StoredToken
    from podium.access.tenants import TenantState


class SqliteAccess(SqliteBase):
    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        texts.check_audit(drafts)
        if drafts:
            await self._writer.write(lambda db: record_audit(db, drafts))

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        from podium.stores.sqlite import audit

        if not texts.could_be_kept(tenant_id):
            return []
        return await self.scan(lambda db: audit.read(db, tenant_id, after, limit))

    async def audit_tenants(self) -> list[str]:
        from podium.stores.sqlite import audit

        return await self.scan(audit.tenants)

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        from podium.stores.sqlite import audit

        if not texts.could_be_kept(tenant_id):
            return None
        return self.query(lambda db: audit.head(db, tenant_id))

    async def add_token(
        self, token: "StoredToken", *, only_first: bool = False, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        from podium.stores.sqlite import tokens

        texts.check_token(token)
        texts.check_audit(audit)
        return await self._writer.write(lambda db: tokens.add(db, token, only_first, audit))

    async def find_token(self, token_id: str) -> "StoredToken | None":
        from podium.stores.sqlite import tokens

        return self.query(lambda db: tokens.find(db, token_id)) if texts.could_be_kept(token_id) else None

    async def list_tokens(self, tenant_id: str) -> "list[StoredToken]":
        from podium.stores.sqlite import tokens

        return self.query(lambda db: tokens.list_all(db, tenant_id)) if texts.could_be_kept(tenant_id) else []

    async def remove_token(
        self, tenant_id: str, token_id: str, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        from podium.stores.sqlite import tokens

        texts.check_audit(audit)
        if not texts.could_be_kept(tenant_id, token_id):
            return False
        return await self._writer.write(lambda db: tokens.remove(db, tenant_id, token_id, audit))

    async def note_token_use(self, token_id: str, at: Timestamp) -> None:
        from podium.stores.sqlite import tokens

        texts.check_moment("the last use of a token", at)
        if texts.could_be_kept(token_id):
            await self._writer.write(lambda db: tokens.note_use(db, token_id, at))

    async def add_session(self, session: "StoredSession", *, now: Timestamp) -> bool:
        from podium.stores.sqlite import sessions

        return await self._writer.write(lambda db: sessions.add(db, session, now))

    async def find_session(self, sha256: str) -> "StoredSession | None":
        from podium.stores.sqlite import sessions

        return self.query(lambda db: sessions.find(db, sha256))

    async def remove_session(self, sha256: str) -> None:
        from podium.stores.sqlite import sessions

        await self._writer.write(lambda db: sessions.remove(db, sha256))

    async def add_login_code(self, code: "LoginCode") -> bool:
        from podium.stores.sqlite import sessions

        return await self._writer.write(lambda db: sessions.add_code(db, code))

    async def take_login_code(self, sha256: str) -> "LoginCode | None":
        from podium.stores.sqlite import sessions

        return await self._writer.write(lambda db: sessions.take_code(db, sha256))

    async def open_tenant(self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()) -> bool:
        from podium.stores.sqlite import tenant_states

        texts.check_tenant_change(tenant_id, at, audit)
        return await self._writer.write(lambda db: tenant_states.open_(db, tenant_id, at, audit))

    async def close_tenant(
        self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        from podium.stores.sqlite import tenant_states

        texts.check_tenant_change(tenant_id, at, audit)
        return await self._writer.write(lambda db: tenant_states.close(db, tenant_id, at, audit))

    async def tenant_states(self) -> "list[TenantState]":
        from podium.stores.sqlite import tenant_states

        return self.query(tenant_states.states)
