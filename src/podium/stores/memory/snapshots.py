"""Wake-ups, snapshots and checkpoints of the store in memory."""

from bisect import insort
from collections.abc import Sequence

from podium.log.checkpoints import Checkpoint
from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp
from podium.stores import texts
from podium.stores.memory.state import MemoryState


class MemorySnapshots(MemoryState):
    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        found: list[tuple[Timestamp, str, str]] = []
        for run_id, kept in self._runs.items():
            if provider is not None and kept.row.provider != provider:
                continue
            for key, due in kept.wake_ups.items():
                if due <= before:
                    insort(found, (due, key, run_id))
        return [WakeUp(run_id=RunId(run_id), key=key, due=due) for due, key, run_id in found[:limit]]

    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        texts.check_snapshot(summary, changed_steps)
        kept = self._kept(run_id)
        if kept.summary is not None and kept.summary.last_event_seq > summary.last_event_seq:
            return
        kept.summary = summary
        kept.steps.update({step.step_id: step for step in changed_steps})

    async def load_summary(self, run_id: RunId) -> RunSummary | None:
        return self._kept(run_id).summary

    async def load_summaries(self, run_ids: Sequence[RunId]) -> list[RunSummary]:
        found = (self._runs[run_id].summary for run_id in run_ids if run_id in self._runs)
        return [summary for summary in found if summary is not None]

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        texts.check_name("after", after)
        steps = self._kept(run_id).steps
        return [steps[key] for key in sorted(key for key in steps if key > after)[:limit]]

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        steps = self._kept(run_id).steps
        return [steps[step_id] for step_id in step_ids if step_id in steps]

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        texts.check_checkpoint(checkpoint)
        kept = self._kept(run_id)
        if kept.checkpoint is None or kept.checkpoint.run_seq <= checkpoint.run_seq:
            kept.checkpoint = checkpoint

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        return self._kept(run_id).checkpoint
