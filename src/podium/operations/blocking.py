"""Asynchronous work for callers that are not: in an event loop of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do it in an event loop of its own: in this thread, or in another one if this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _in_thread(work)


def _in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    done: Future[T] = Future()
    started: Future[Callable[[], object]] = Future()

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def thread() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=thread, name="podium").start()
    interrupt: KeyboardInterrupt | None = None
    while interrupt is None or not done.done():
        try:
            return done.result()
        except KeyboardInterrupt as error:
            # As in the main thread: once cancels the run, twice kills it.
            interrupt = error
            started.result()()
        except BaseException:
            if interrupt is None:
                raise
    raise interrupt
