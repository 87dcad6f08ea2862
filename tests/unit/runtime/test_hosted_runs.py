"""Runs on a worker: prepared with their first attempt, closed when they have been idle, never while they are used."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.runtime.hosted_runs import HostedRun, HostedRuns

R1, R2, R3 = RunId("r1"), RunId("r2"), RunId("r3")


def scenario(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


class Host:
    """Notes what is prepared and closed."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.fails = False
        self.closing = asyncio.Event()
        self.closing.set()

    async def prepare(self, run_id: RunId) -> HostedRun:
        self.notes.append(f"prepare {run_id}")
        await asyncio.sleep(0.01)
        if self.fails:
            raise PodiumError("it cannot be prepared")
        tasks: Any = Closable(self, run_id)
        plan: Any = None
        return HostedRun(run_id, plan, tasks, tasks)


class Closable:
    def __init__(self, host: Host, run_id: RunId) -> None:
        self._host = host
        self._run_id = run_id

    async def close(self) -> None:
        await self._host.closing.wait()
        self._host.notes.append(f"close {self._run_id}")


@pytest.mark.rule("EN09")
def test_a_run_is_prepared_once_however_many_attempts_ask_for_it() -> None:
    async def test() -> None:
        host = Host()
        runs = HostedRuns(host.prepare)

        async def attempt() -> None:
            async with runs.use(R1):
                await asyncio.sleep(0.01)

        await asyncio.gather(*(attempt() for _ in range(10)))
        assert host.notes == ["prepare r1"]
        await runs.close()
        assert host.notes == ["prepare r1", "close r1"]

    scenario(test)


@pytest.mark.rule("EN09")
def test_a_run_is_closed_when_it_has_been_idle_and_never_while_it_is_used() -> None:
    async def test() -> None:
        host = Host()
        runs = HostedRuns(host.prepare, idle=timedelta(seconds=0.2))
        async with runs.use(R1):
            async with runs.use(R2):
                pass
            while "close r2" not in host.notes:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)
            assert runs.open_runs == [R1]
        while "close r1" not in host.notes:
            await asyncio.sleep(0.02)
        assert runs.open_runs == []
        await runs.close()

    scenario(test)


@pytest.mark.rule("EN09")
def test_only_so_many_idle_runs_are_kept() -> None:
    async def test() -> None:
        host = Host()
        runs = HostedRuns(host.prepare, max_idle=2)
        for run_id in (R1, R2, R3):
            async with runs.use(run_id):
                pass
        await asyncio.sleep(0.05)
        assert runs.open_runs == [R2, R3]
        assert host.notes[-1] == "close r1"
        await runs.close()

    scenario(test)


@pytest.mark.rule("EN09")
def test_a_run_is_not_prepared_again_before_it_has_been_closed() -> None:
    async def test() -> None:
        host = Host()
        runs = HostedRuns(host.prepare)
        async with runs.use(R1):
            pass
        host.closing.clear()
        runs.close_if_idle(R1)

        async def attempt() -> None:
            async with runs.use(R1):
                pass

        again = asyncio.create_task(attempt())
        await asyncio.sleep(0.05)
        assert host.notes == ["prepare r1"]
        host.closing.set()
        await again
        assert host.notes == ["prepare r1", "close r1", "prepare r1"]
        await runs.close()

    scenario(test)


@pytest.mark.rule("EN09")
def test_what_could_not_be_prepared_is_tried_again_by_the_next_attempt() -> None:
    async def test() -> None:
        host = Host()
        runs = HostedRuns(host.prepare)
        host.fails = True
        for _ in range(2):
            with pytest.raises(PodiumError):
                async with runs.use(R1):
                    pass
        host.fails = False
        async with runs.use(R1):
            pass
        assert host.notes == ["prepare r1"] * 3
        await runs.close()

    scenario(test)


@pytest.mark.rule("EN09")
def test_an_attempt_that_stops_waiting_does_not_stop_the_preparation_for_others() -> None:
    async def test() -> None:
        host = Host()
        runs = HostedRuns(host.prepare)

        async def attempt() -> None:
            async with runs.use(R1):
                pass

        first, second = asyncio.create_task(attempt()), asyncio.create_task(attempt())
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert host.notes == ["prepare r1"]
        await runs.close()

    scenario(test)
