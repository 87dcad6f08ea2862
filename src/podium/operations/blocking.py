"""Asynchronous work for synchronous callers, in an event loop of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, Final, TypeVar

_LOOK_SECONDS: Final = 0.1
T = TypeVar("T")


def blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it in an event loop of its own: in this thread, or in another one if this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _in_thread(work)


def _in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Ctrl-C has the same effect as in the main thread: once cancels the work, twice cancels it again.

    It arrives as KeyboardInterrupt; or, in `asyncio.run`, as a cancellation of the waiting task, which cannot
    notice it.
    """
    done: Future[T] = Future()
    started: Future[Callable[[], object]] = Future()
    waiting = asyncio.current_task()

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
    interrupt: BaseException | None = None
    noticed = waiting.cancelling() if waiting is not None else 0
    while not done.done():
        try:
            wait([done], timeout=_LOOK_SECONDS)
        except KeyboardInterrupt as error:
            interrupt = error
            started.result()()
        if waiting is not None and waiting.cancelling() > noticed:
            noticed, interrupt = waiting.cancelling(), asyncio.CancelledError()
            started.result()()
    if interrupt is not None:
        raise interrupt
    return done.result()
