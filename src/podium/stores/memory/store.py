"""The memory store, composed of its parts: for tests, and the simplest definition of what a store does."""

from pathlib import Path
from uuid import uuid4

from podium.errors import StoreUnavailable
from podium.log.ids import RunId
from podium.log.transitions import TERMINAL
from podium.ports.clock import Clock
from podium.ports.store import StoreStats
from podium.stores import rules
from podium.stores.memory.endpoints import MemoryEndpoints
from podium.stores.memory.fleet import MemoryFleet
from podium.stores.memory.log import admitted
from podium.stores.memory.outbox import BusLine
from podium.stores.memory.plans import MemoryPlans
from podium.stores.memory.schedules import MemorySchedules
from podium.stores.memory.snapshots import MemorySnapshots
from podium.stores.memory.tenant_runs import MemoryTenantRuns


class MemoryStore(MemoryFleet, MemoryEndpoints, MemorySchedules, MemorySnapshots):
    """Everything is in dictionaries; one event loop, no durability."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._id = uuid4().hex
        self.plans = MemoryPlans(self._record_audit)

    @property
    def runs(self) -> MemoryTenantRuns:
        return MemoryTenantRuns(self._runs)

    async def store_id(self) -> str:
        return self._id

    async def prune(self, run_id: RunId) -> None:
        kept = self._kept(run_id)
        undelivered = any(lines.get(run_id, BusLine()).waiting for lines in self._buses.values())
        rules.check_prunable(kept.row, undelivered=undelivered)
        self._pruned[admitted(kept.row)] = run_id
        self._dead = {key: dead for key, dead in self._dead.items() if key[1] != run_id}
        del self._runs[run_id]
        self._remove_unused_contents()
        for lines in self._buses.values():
            lines.pop(run_id, None)

    async def stats(self) -> StoreStats:
        return StoreStats(
            runs=len(self._runs),
            open_runs=sum(kept.row.status not in TERMINAL for kept in self._runs.values()),
            events=sum(len(kept.log) for kept in self._runs.values()),
            bytes_used=0,
            schema_version=0,
        )

    async def problems(self) -> list[str]:
        used = {digest for kept in self._runs.values() for digest in kept.contents.values()}
        lost = [f"content {digest.hex()} is missing" for digest in used - self._contents.keys()]
        unused = [f"content {digest.hex()} belongs to no run" for digest in self._contents.keys() - used]
        return lost + unused + self._audit_problems()

    async def vacuum(self) -> None:
        pass

    async def free_memory(self) -> None:
        pass

    async def backup(self, path: Path) -> None:
        raise StoreUnavailable(f"a store in memory cannot be copied to {path}; export its runs instead")

    async def close(self) -> None:
        pass
