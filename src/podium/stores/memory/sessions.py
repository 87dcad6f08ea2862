"""Sessions, login codes and states of tenants of a store in memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podium.access.tenants import TenantState
from podium.errors import TenantClosed
from podium.log.times import Timestamp
from podium.ports.clock import Clock
from podium.stores import texts
from podium.stores.memory.limits import MemoryLimits
from podium.stores.memory.tokens import MemoryTokens

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft
    from podium.access.sessions import LoginCode, StoredSession
    from podium.access.stored_tokens import StoredToken


class MemorySessions(MemoryTokens, MemoryLimits):
    """A part of `MemoryStore`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._sessions: dict[str, StoredSession] = {}
        self._codes: dict[str, LoginCode] = {}
        self._states: dict[str, TenantState] = {}
        self._limits_before: dict[str, int | None] = {}

    async def find_token(self, token_id: str) -> "StoredToken | None":
        found = await super().find_token(token_id)
        return found if found is not None and not self._is_closed(found.tenant_id) else None

    async def add_session(self, session: "StoredSession", *, now: Timestamp) -> bool:
        from podium.access.sessions import token_of_session

        self._sessions = {key: one for key, one in self._sessions.items() if one.expires_at > now}
        self._codes = {key: one for key, one in self._codes.items() if one.expires_at > now}
        token_id = token_of_session(session.credential)
        if token_id is not None and token_id not in self._tokens:
            return False
        self._sessions[session.sha256] = session
        return True

    async def find_session(self, sha256: str) -> "StoredSession | None":
        return self._sessions.get(sha256)

    async def remove_session(self, sha256: str) -> None:
        self._sessions.pop(sha256, None)

    async def add_login_code(self, code: "LoginCode") -> bool:
        if code.token_id not in self._tokens:
            return False
        self._codes[code.sha256] = code
        return True

    async def take_login_code(self, sha256: str) -> "LoginCode | None":
        return self._codes.pop(sha256, None)

    def _end_with(self, token_id: str) -> None:
        from podium.access.sessions import token_of_session

        sessions = self._sessions.items()
        self._sessions = {key: one for key, one in sessions if token_of_session(one.credential) != token_id}
        self._codes = {key: one for key, one in self._codes.items() if one.token_id != token_id}

    # --- tenants ----------------------------------------------------------------------------------

    async def open_tenant(self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()) -> bool:
        texts.check_tenant_change(tenant_id, at, audit)
        known = self._states.get(tenant_id)
        if known is not None and known.closed_at is None:
            return False
        if known is not None:
            self._limits.pop((tenant_id, "tenant", tenant_id), None)
            before = self._limits_before.pop(tenant_id)
            if before is not None:
                self._limits[tenant_id, "tenant", tenant_id] = before
        created_at = known.created_at if known is not None else at
        self._states[tenant_id] = TenantState(tenant_id=tenant_id, created_at=created_at)
        self._record_audit(audit)
        return True

    async def close_tenant(
        self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        texts.check_tenant_change(tenant_id, at, audit)
        if self._is_closed(tenant_id):
            return False
        known = self._states.get(tenant_id)
        created_at = known.created_at if known is not None else at
        self._states[tenant_id] = TenantState(tenant_id=tenant_id, created_at=created_at, closed_at=at)
        self._limits_before[tenant_id] = self._limits.get((tenant_id, "tenant", tenant_id))
        self._limits[tenant_id, "tenant", tenant_id] = 0
        self._record_audit(audit)
        return True

    async def tenant_states(self) -> list[TenantState]:
        return [self._states[name] for name in sorted(self._states)]

    def _is_closed(self, tenant_id: str) -> bool:
        known = self._states.get(tenant_id)
        return known is not None and known.closed_at is not None

    def _require_open(self, tenant_id: str) -> None:
        if self._is_closed(tenant_id):
            raise TenantClosed(tenant_id)
