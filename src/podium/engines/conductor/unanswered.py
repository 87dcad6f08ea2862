"""Tasks whose worker died right after it had polled them are put back into the queue.

A worker answers within two seconds, by a heartbeat or by the task's end, and from then on the server delivers
the task again by itself if heartbeats stop. Before that only the server's response timeout would detect the
death: not while the execution is paused, and minutes late if the task was polled before.
"""

import time
from collections.abc import Callable
from typing import Final

from podium.engines.conductor.answers import IN_PROGRESS, Task, TaskSummary
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.names import Domain, Names

# A worker on a busy machine may be late. If its task is then delivered twice, the leases resolve it.
_SECONDS: Final = 6.0


class UnansweredTasks:
    def __init__(
        self,
        client: ConductorClient,
        names: Names,
        domain: Domain,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._names = names
        self._domain = domain
        self._clock = clock
        # Since when each is known to be unanswered; if it is polled again, it is a different one.
        self._since: dict[TaskSummary, float] = {}

    async def look(self) -> None:
        polled = await self._client.polled(self._names.decider) + await self._client.polled(self._names.step)
        now = self._clock()
        mine = [one for one in polled if one.domain == self._domain.name]
        self._since = {one: self._since.get(one, now) for one in mine}
        for one in [one for one, since in self._since.items() if now - since >= _SECONDS]:
            await self._put_back(one)
            del self._since[one]

    async def _put_back(self, one: TaskSummary) -> None:
        task = Task(task_id=one.task_id, workflow_instance_id=one.workflow_id, status=IN_PROGRESS)
        await self._client.update(task, IN_PROGRESS, callback_after=0)
