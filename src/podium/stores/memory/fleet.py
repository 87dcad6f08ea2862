"""Queues and workers in memory."""

from typing import NamedTuple

from msgspec.structs import replace

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import moment, timestamp
from podium.log.transitions import NOT_STARTED, TERMINAL
from podium.log.workers import PoolLoad, QueuedRun, Worker, WorkerReport
from podium.ports.clock import Clock
from podium.stores import rules, texts
from podium.stores.memory.state import MemoryState


class OpenRun(NamedTuple):
    number: int
    row: Run
    is_live: bool
    is_parked: bool


class MemoryFleet(MemoryState):
    """The part of the memory store that lists waiting runs of pools, and workers."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._workers: dict[str, Worker] = {}

    def _open_run(self, run_id: str) -> OpenRun:
        kept = self._kept(run_id)
        return OpenRun(kept.number, kept.row, self._is_live(kept, ""), kept.wake_at is not None)

    def _open_runs_of(self, tenant_id: str) -> list[OpenRun]:
        return [
            self._open_run(run_id)
            for run_id, kept in self._runs.items()
            if kept.row.identity.tenant_id == tenant_id and kept.row.status not in TERMINAL
        ]

    async def queued(
        self, tenant_id: str, pool: str, *, after: str = "", limit: int = 100
    ) -> list[QueuedRun]:
        line = self._line(tenant_id, pool)
        if after:
            last = self._open_run(after)
            if last.row.identity.tenant_id != tenant_id:
                raise RunNotFound(after)
            line = [one for one in line if _place(one) > _place(last)]
        start = len(self._line(tenant_id, pool)) - len(line)
        return [
            QueuedRun(run=one.row, position=start + n) for n, one in enumerate(line[: max(limit, 0)], start=1)
        ]

    async def queue_position(self, run_id: RunId) -> int | None:
        run = self._open_run(run_id)
        if run.row.pool is None or not _waits(run.row):
            return None
        line = self._line(run.row.identity.tenant_id, run.row.pool)
        return 1 + sum(_place(one) < _place(run) for one in line)

    def _line(self, tenant_id: str, pool: str) -> list[OpenRun]:
        found = [one for one in self._open_runs_of(tenant_id) if one.row.pool == pool and _waits(one.row)]
        return sorted(found, key=_place)

    async def pool_loads(self, tenant_id: str) -> list[PoolLoad]:
        runs = self._open_runs_of(tenant_id)
        pools = sorted({one.row.pool for one in runs if one.row.pool is not None})
        return [self._load(pool, [one for one in runs if one.row.pool == pool]) for pool in pools]

    def _load(self, pool: str, runs: list[OpenRun]) -> PoolLoad:
        now = timestamp(self._clock.now())
        line = [one for one in runs if _waits(one.row)]
        ready = [one.row for one in line if rules.may_start(one.row, now=now)]
        started = [one for one in runs if one.row.status not in NOT_STARTED]
        free = [one for one in started if not one.is_live]
        parked = sum(one.is_parked for one in free)
        return PoolLoad(
            pool=pool,
            waiting=len(ready),
            delayed=len(line) - len(ready),
            unapproved=len(runs) - len(line) - len(started),
            running=len(started) - len(free),
            parked=parked,
            left=len(free) - parked,
            oldest_at=min((row.created_at for row in ready), default=None),
        )

    async def report_worker(self, report: WorkerReport) -> bool:
        texts.check_worker(report)
        now = self._clock.now()
        limit = timestamp(now - rules.FORGET_WORKER_AFTER)
        self._workers = {name: one for name, one in self._workers.items() if one.seen_at >= limit}
        before = self._workers.get(report.worker_id)
        is_draining = before is not None and before.is_draining
        self._workers[report.worker_id] = Worker(
            report=report, seen_at=timestamp(now), seen_seconds_ago=0, is_draining=is_draining
        )
        return is_draining

    async def workers(self) -> list[Worker]:
        now = self._clock.now()
        return [
            replace(one, seen_seconds_ago=(now - moment(one.seen_at)).total_seconds())
            for _, one in sorted(self._workers.items())
        ]

    async def drain_worker(self, worker_id: str) -> bool:
        found = self._workers.get(worker_id)
        if found is not None:
            self._workers[worker_id] = replace(found, is_draining=True)
        return found is not None

    async def remove_worker(self, worker_id: str) -> None:
        self._workers.pop(worker_id, None)


def _waits(row: Run) -> bool:
    return row.status in NOT_STARTED and not row.waits_for_approval


def _place(run: OpenRun) -> tuple[int, int]:
    return -run.row.priority, run.number
