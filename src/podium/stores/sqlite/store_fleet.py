"""Queues and workers in the store. The statements are in `fleet.py`, imported on first use."""

from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.workers import PoolLoad, QueuedRun, Worker, WorkerReport
from podium.stores import texts
from podium.stores.sqlite.store_base import SqliteBase


class SqliteFleet(SqliteBase):
    async def queued(
        self, tenant_id: str, pool: str, *, after: str = "", limit: int = 100
    ) -> list[QueuedRun]:
        from podium.stores.sqlite import fleet

        if not texts.could_be_kept(tenant_id, pool, after):
            return []
        return self.query(lambda db: fleet.queued(db, tenant_id, pool, after, limit))

    async def queue_position(self, run_id: RunId) -> int | None:
        from podium.stores.sqlite import fleet

        return self.query(lambda db: fleet.position(db, run_id))

    async def open_of_key(self, tenant_id: str, concurrency_key: str) -> list[Run]:
        from podium.stores.sqlite import fleet

        if not texts.could_be_kept(tenant_id, concurrency_key):
            return []
        return self.query(lambda db: fleet.open_of_key(db, tenant_id, concurrency_key))

    async def pool_loads(self, tenant_id: str) -> list[PoolLoad]:
        from podium.stores.sqlite import fleet

        if not texts.could_be_kept(tenant_id):
            return []
        return self.query(lambda db: fleet.pool_loads(db, self._moments(), tenant_id))

    async def report_worker(self, report: WorkerReport) -> bool:
        from podium.stores.sqlite import fleet

        texts.check_worker(report)
        return await self._writer.write(lambda db: fleet.report(db, self._writer.moment, report))

    async def workers(self) -> list[Worker]:
        from podium.stores.sqlite import fleet

        return self.query(lambda db: fleet.workers(db, self._moments()))

    async def drain_worker(self, worker_id: str) -> bool:
        from podium.stores.sqlite import fleet

        if not texts.could_be_kept(worker_id):
            return False
        return await self._writer.write(lambda db: fleet.drain(db, worker_id))

    async def remove_worker(self, worker_id: str) -> None:
        from podium.stores.sqlite import fleet

        if texts.could_be_kept(worker_id):
            await self._writer.write(lambda db: fleet.remove(db, worker_id))
