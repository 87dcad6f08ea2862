"""How a worker asks a Conductor server for work."""

import asyncio
from collections.abc import Sequence

import pytest

from podium.engines.conductor.answers import Task
from podium.engines.conductor.polling import Poller
from podium.engines.errors import EngineUnavailable
from podium.testing.virtual_time import run_virtually

TASK = Task(task_id="t", workflow_instance_id="w", status="IN_PROGRESS")


class Server:
    """With tasks that are there from some time on; it answers every poll at the time it may."""

    def __init__(self, *due: float) -> None:
        self._due = list(due)
        self.polls: list[tuple[int, int]] = []
        self.begun: list[float] = []
        self.room = 5
        self.is_away_until = 0.0
        # Of a poll that does not wait.
        self.answers_after = 0.0
        self.poller = Poller(self._ask, lambda: self.room, self._begin)

    async def _ask(self, count: int, wait_ms: int) -> Sequence[Task]:
        loop = asyncio.get_running_loop()
        self.polls.append((count, wait_ms))
        if loop.time() < self.is_away_until:
            raise EngineUnavailable("away")
        if not wait_ms:
            await asyncio.sleep(self.answers_after)
        until = loop.time() + wait_ms / 1000
        while not (found := [due for due in self._due if due <= loop.time()]) and loop.time() < until:
            await asyncio.sleep(0.1)
        taken = found[:count]
        for due in taken:
            self._due.remove(due)
        return [TASK] * len(taken)

    def _begin(self, _task: Task) -> None:
        self.begun.append(asyncio.get_running_loop().time())

    async def serve(self, seconds: float) -> None:
        serving = asyncio.create_task(self.poller.run())
        await asyncio.sleep(seconds)
        self.poller.stop()
        await serving


def test_an_idle_worker_lets_the_server_wait() -> None:
    server = Server()
    run_virtually(server.serve(60))
    assert len(server.polls) < 150
    assert set(server.polls) == {(1, 500)}


def test_a_busy_worker_asks_again_and_again() -> None:
    server = Server(*(0.05 * n for n in range(20)))
    run_virtually(server.serve(1.5))
    assert len(server.begun) == 20
    assert (5, 0) in server.polls


def test_no_work_is_asked_for_without_room() -> None:
    server = Server(0.0)
    server.room = 0
    run_virtually(server.serve(5))
    assert server.polls == []


def test_what_was_woken_is_had_at_once_beside_a_poll_that_waits() -> None:
    server = Server(10.02)

    async def scenario() -> None:
        serving = asyncio.create_task(server.serve(11))
        await asyncio.sleep(10.03)
        await server.poller.look()
        assert server.begun == [pytest.approx(10.03, abs=0.02)]
        await serving

    run_virtually(scenario())


def test_a_server_that_is_away_is_asked_again_with_pauses() -> None:
    server = Server(0.0)
    server.is_away_until = 30.0
    run_virtually(server.serve(29.5))
    assert 25 < len(server.polls) < 35


@pytest.mark.rule("EN08")
def test_a_worker_that_stops_lets_every_open_poll_return() -> None:
    """Also one beside its own, for a run that it has woken: a poll that is cut off takes its task with it."""
    server = Server(1.25)

    async def scenario() -> None:
        serving = asyncio.create_task(server.serve(1.0))
        await asyncio.sleep(0.95)
        server.answers_after = 0.4
        beside = asyncio.create_task(server.poller.look())
        await serving
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        assert len(server.begun) == 1

    run_virtually(scenario())
