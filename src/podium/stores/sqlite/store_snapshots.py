"""Wake-ups, snapshots and checkpoints in the store.

The statements are in `snapshots.py` and `checkpoints.py`.
"""

from collections.abc import Sequence

from podium.log.checkpoints import Checkpoint
from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp
from podium.stores import texts
from podium.stores.sqlite import checkpoints, snapshots
from podium.stores.sqlite.store_base import SqliteBase


class SqliteSnapshots(SqliteBase):
    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        return self.query(lambda db: snapshots.due(db, before, limit, provider))

    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        texts.check_snapshot(summary, changed_steps)
        await self._writer.write_aside(lambda db: snapshots.save(db, run_id, summary, changed_steps))

    async def load_summary(self, run_id: RunId) -> RunSummary | None:
        return self.query(lambda db: snapshots.load_summary(db, run_id))

    async def load_summaries(self, run_ids: Sequence[RunId]) -> list[RunSummary]:
        return self.query(lambda db: snapshots.load_summaries(db, run_ids))

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        texts.check_name("after", after)
        return self.query(lambda db: snapshots.load_steps(db, run_id, after, limit))

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        possible = [step_id for step_id in step_ids if texts.could_be_kept(step_id)]
        return self.query(lambda db: snapshots.find_steps(db, run_id, possible))

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        texts.check_checkpoint(checkpoint)
        await self._writer.write(lambda db: checkpoints.save(db, run_id, checkpoint))

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        return self.query(lambda db: checkpoints.load(db, run_id))
