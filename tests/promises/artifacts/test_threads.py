"""Work in a thread is never abandoned: a file that is being written is not closed under the writer's hands."""

import asyncio
import threading
import time

import pytest

from podium.artifacts.threads import in_thread


def test_a_cancelled_caller_waits_until_the_thread_has_come_back() -> None:
    begun, events = threading.Event(), []

    def work() -> None:
        begun.set()
        time.sleep(0.2)
        events.append("thread")

    async def cancel_it_twice() -> None:
        task = asyncio.create_task(in_thread(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        events.append("caller")

    asyncio.run(cancel_it_twice())
    assert events == ["thread", "caller"]


def test_what_the_work_raises_is_raised_by_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_thread(divmod, 1, 0))


def test_a_time_limit_is_still_a_time_limit() -> None:
    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await in_thread(time.sleep, 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(limited())
