"""What Conductor shows of a run: its status, also if it changes faster than the server answers, and its steps."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from podium.engines.conductor.mirroring import Mirror, TaskLog
from podium.log.drafts import LoggedEvent
from podium.log.times import timestamp
from podium.testing.virtual_time import run_virtually


class SlowServer:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answers = asyncio.Event()

    async def pause(self, _execution: str) -> None:
        self.calls.append("pause")
        await self.answers.wait()

    async def resume(self, _execution: str) -> None:
        self.calls.append("resume")
        await self.answers.wait()


@pytest.mark.rule("CN04", "G37")
def test_a_status_is_not_known_until_the_server_has_answered_also_if_it_is_wanted_back() -> None:
    async def test() -> None:
        server = SlowServer()
        mirror, is_true = Mirror(cast("Any", server), "e"), asyncio.Event()
        keeping = asyncio.create_task(mirror.keep_up(is_true.set))
        mirror.want(paused=True)
        while not server.calls:
            await asyncio.sleep(0)
        mirror.want(paused=False)  # the pause is on its way
        assert not mirror.is_true
        server.answers.set()
        await is_true.wait()
        assert (mirror.is_true, server.calls) == (True, ["pause", "resume"])
        keeping.cancel()

    asyncio.run(asyncio.wait_for(test(), 60))


class Lines:
    """The log of a task on the server."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []

    async def log(self, _task: str, text: str) -> None:
        self.written.append(text.splitlines())


def event(number: int, kind: str = "StepStarted", attempt: int = 1) -> LoggedEvent:
    at = timestamp(datetime(2030, 1, 1, tzinfo=UTC))
    return LoggedEvent(number, at, kind, f"S{number}", attempt, 1, {})


@pytest.mark.rule("CN04")
def test_the_log_of_a_task_gets_at_most_ten_lines_a_second_and_counts_the_rest() -> None:
    lines = Lines()

    async def test() -> None:
        log = TaskLog(cast("Any", lines), "t")
        keeping = asyncio.create_task(log.keep_up())
        log.note(event(1, "StepFailed", 3))
        log.note(event(2, "TimerFired"))
        await asyncio.sleep(1.5)
        for number in range(30):
            log.note(event(number))
        await asyncio.sleep(1)
        keeping.cancel()

    run_virtually(test())
    first, second = lines.written
    assert [line.partition(" ")[2] for line in first] == ["S1 failed, attempt 3"]
    assert (len(second), second[-1]) == (11, "and 20 more")
