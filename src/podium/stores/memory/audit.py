"""The audit log of the store in memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podium.ports.clock import Clock
from podium.stores import texts
from podium.stores.memory.state import MemoryState

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord


class MemoryAudit(MemoryState):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._audit: dict[str, list[AuditRecord]] = {}
        self._audit_heads: dict[str, AuditHead] = {}

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        texts.check_audit(drafts)
        self._record_audit(drafts)

    def _record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        if not drafts:
            return
        from podium.access.audit import ChainEnd, by_tenant, continued

        for tenant_id, of_tenant in by_tenant(drafts).items():
            chain = self._audit.setdefault(tenant_id, [])
            newest = ChainEnd(chain[-1].seq, chain[-1].seal) if chain else None
            records, head = continued(of_tenant, self._audit_heads.get(tenant_id), newest)
            chain += records
            self._audit_heads[tenant_id] = head

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        found = [record for record in self._audit.get(tenant_id, ()) if record.seq > after]
        return found[:limit]

    async def audit_tenants(self) -> list[str]:
        return sorted(self._audit)

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        return self._audit_heads.get(tenant_id)

    def _audit_problems(self) -> list[str]:
        from podium.stores.audit_problems import ChainProblems

        found = []
        for tenant_id, chain in self._audit.items():
            problems = ChainProblems(tenant_id)
            found += [problem for record in chain for problem in problems.add(record)]
            found += problems.finish(self._audit_heads.get(tenant_id))
        return found
