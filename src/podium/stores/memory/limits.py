"""How many runs of a tenant, a plan or a key may run concurrently."""

from collections.abc import Iterable

from podium.log.transitions import IN_PROGRESS
from podium.ports.clock import Clock
from podium.ports.store import Limit
from podium.stores import rules, texts
from podium.stores.memory.state import KeptRun, MemoryState


class MemoryLimits(MemoryState):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._limits: dict[tuple[str, str, str], int] = {}

    async def set_limit(self, limit: Limit) -> None:
        texts.check_limit(limit)
        self._limits[limit.tenant_id, limit.scope, limit.name] = limit.most

    async def limits(self, tenant_id: str) -> list[Limit]:
        return sorted(
            Limit(tenant, scope, name, most)
            for (tenant, scope, name), most in self._limits.items()
            if tenant == tenant_id
        )

    async def remove_limit(self, tenant_id: str, scope: str, name: str) -> bool:
        return self._limits.pop((tenant_id, scope, name), None) is not None

    def _has_slot(self, kept: KeptRun) -> bool:
        is_parked = kept.keeps_slot and kept.row.status in IN_PROGRESS
        return is_parked or self._is_live(kept, "")

    def _full_limit(self, scopes: Iterable[tuple[str, str, str]]) -> str | None:
        """The first limit that a further run would exceed, in words."""
        for scope in scopes:
            most = self._limits.get(scope)
            if most is None:
                continue
            taken = sum(self._has_slot(kept) for kept in self._runs.values() if scope in kept.scopes)
            if taken >= most:
                return rules.describe_limit(scope, most)
        return None
