"""One timer for many waits: each is as long as it may be, and no wait ends because of another."""

import asyncio

import pytest

from podium.runtime.shared_timeout import Patience
from podium.testing.virtual_time import run_virtually


def test_each_wait_has_its_own_time_however_many_came_before() -> None:
    async def scenario() -> None:
        patience, loop = Patience(3), asyncio.get_running_loop()
        for _ in range(10):
            with patience:
                await asyncio.sleep(2.9)
        began = loop.time()
        with pytest.raises(TimeoutError), patience:
            await asyncio.sleep(1000)
        assert loop.time() - began == pytest.approx(3)
        with patience:
            await asyncio.sleep(2.9)

    run_virtually(scenario())


def test_what_is_cancelled_by_others_is_cancelled_and_not_too_late() -> None:
    async def scenario() -> None:
        patience = Patience(3)

        async def wait(seconds: float) -> None:
            with patience:
                await asyncio.sleep(seconds)

        task = asyncio.create_task(wait(1000))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Nothing is left of it for the next.
        await wait(2.9)

    run_virtually(scenario())


def test_who_is_cancelled_in_the_moment_in_which_its_time_is_over_stays_cancelled() -> None:
    async def scenario() -> None:
        patience = Patience(3)

        async def wait() -> None:
            with patience:
                await asyncio.sleep(1000)

        task = asyncio.create_task(wait())
        asyncio.get_running_loop().call_later(3, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run_virtually(scenario())


def test_an_error_inside_is_the_error() -> None:
    async def scenario() -> None:
        patience = Patience(3)
        with pytest.raises(KeyError), patience:
            raise KeyError
        with patience:
            await asyncio.sleep(2)

    run_virtually(scenario())
