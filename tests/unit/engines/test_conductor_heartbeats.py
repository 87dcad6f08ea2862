"""Heartbeats of a step that was handed out: none comes after what is said about its end."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from podium.engines.conductor import worker
from podium.engines.conductor.answers import Task
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.names import Domain
from podium.engines.conductor.site import HELD_SECONDS
from podium.engines.conductor.worker import ConductorWorker
from podium.runtime.engine_attempt import WorkerStopped

TASK = Task("t", "e", "IN_PROGRESS", input_data={"order": {"runId": "r1", "path": "A", "attempt": 1}})


class Server:
    """A heartbeat is on its way for a while, whatever becomes of its sender."""

    def __init__(self) -> None:
        self.client = self
        self.said: list[int] = []
        self.has_heartbeat = asyncio.Event()

    async def update(self, _task: Task, _status: str, *, callback_after: int = 0) -> bool:
        if callback_after == HELD_SECONDS:
            self.has_heartbeat.set()
            await asyncio.shield(asyncio.create_task(self._take_late(callback_after)))
        else:
            await asyncio.sleep(0.1)
            self.said.append(callback_after)
        return True

    async def _take_late(self, callback_after: int) -> None:
        await asyncio.sleep(0.3)
        self.said.append(callback_after)


class Steps:
    """The worker is stopped while a heartbeat is on its way."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def perform(self, *_: Any) -> None:
        await self._server.has_heartbeat.wait()
        raise WorkerStopped("the worker ends")


@pytest.mark.rule("EN08", "CN21")
def test_a_step_that_is_given_back_is_not_put_off_by_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "BEAT_SECONDS", 0.01)
    nothing = cast("Any", None)

    async def scenario() -> None:
        server, domain = Server(), Domain("q.r1@here", "here")
        carries_out = ConductorWorker(
            *(nothing, Connection(), domain, nothing, nothing),
            slots=1,
            decides=False,
            drain=timedelta(0),
        )
        await carries_out._step(cast("Any", server), cast("Any", Steps(server)), TASK)
        await asyncio.sleep(0.5)
        assert server.said == [HELD_SECONDS, 0]

    asyncio.run(asyncio.wait_for(scenario(), 30))
