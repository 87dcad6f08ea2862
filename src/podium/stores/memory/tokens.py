"""Tokens of a store in memory."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from podium.log.times import Timestamp
from podium.ports.clock import Clock
from podium.stores import texts
from podium.stores.memory.audit import MemoryAudit

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft
    from podium.access.stored_tokens import StoredToken


class MemoryTokens(MemoryAudit):
    """A part of `MemoryStore`, which records decisions."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._tokens: dict[str, StoredToken] = {}

    @abstractmethod
    def _end_with(self, token_id: str) -> None:
        """Removes what depends on a token."""
        ...

    async def add_token(
        self, token: "StoredToken", *, only_first: bool = False, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        texts.check_token(token)
        texts.check_audit(audit)
        if token.token_id in self._tokens or (only_first and self._tokens):
            return False
        self._tokens[token.token_id] = token
        self._record_audit(audit)
        return True

    async def find_token(self, token_id: str) -> "StoredToken | None":
        return self._tokens.get(token_id)

    async def list_tokens(self, tenant_id: str) -> "list[StoredToken]":
        found = [token for token in self._tokens.values() if token.tenant_id == tenant_id]
        return sorted(found, key=lambda token: (token.created_at, token.token_id))

    async def remove_token(
        self, tenant_id: str, token_id: str, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        texts.check_audit(audit)
        found = self._tokens.get(token_id)
        if found is None or found.tenant_id != tenant_id:
            return False
        del self._tokens[token_id]
        self._end_with(token_id)
        self._record_audit(audit)
        return True

    async def note_token_use(self, token_id: str, at: Timestamp) -> None:
        texts.check_moment("the last use of a token", at)
        found = self._tokens.get(token_id)
        if found is not None:
            used = max(found.last_used_at or at, at)
            self._tokens[token_id] = replace(found, last_used_at=used)
