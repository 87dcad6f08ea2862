"""Results that a run takes over from an earlier one: recorded with where they come from, and not made again.

The machine knows nothing of it. It orders a task as ever, and gets the end that the earlier run has recorded for it;
so the new run goes the same way until it comes to the step it is rerun from, and from there on everything is carried
out.
"""

import asyncio
from collections.abc import Callable

import msgspec

from podium.model.commands import RunTask
from podium.model.events import EventType
from podium.model.ids import RunId
from podium.ports.store import EventLog
from podium.runtime.drive import Tasks
from podium.runtime.tasks.order import TaskResult

_ENDS = frozenset({EventType.STEP_COMPLETED, EventType.STEP_FAILED})


async def results_before(
    log: EventLog, original: RunId, step: str
) -> dict[tuple[str, int], TaskResult] | None:
    """What had ended when a step was first reached; None if it never was."""
    results: dict[tuple[str, int], TaskResult] = {}
    after = 0
    while records := await log.read(original, after=after, limit=5000):
        after = records[-1].run_seq
        for record in records:
            if record.step_id == step:
                return results
            if record.step_id is not None and record.event_type in _ENDS:
                payload = {**msgspec.json.decode(record.payload), "reusedFrom": original}
                results[record.step_id, record.logical_attempt_id] = TaskResult(record.event_type, payload)
    return None


class ReusingTasks:
    """`Tasks` of which some have ended in an earlier run."""

    def __init__(self, tasks: Tasks, earlier: dict[tuple[str, int], TaskResult]) -> None:
        self._tasks = tasks
        self._earlier = earlier

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None:
        result = self._earlier.pop((task.path, task.attempt), None)
        if result is None:
            self._tasks.start(task, engine_attempt, done)
        else:
            asyncio.get_running_loop().call_soon(done, result)

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        return self._tasks.stop(path, attempt, code, force=force)

    async def stop_orphans(self) -> None:
        await self._tasks.stop_orphans()
