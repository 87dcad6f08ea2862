"""Blocking work outside of the event loop, never abandoned half-way.

When `asyncio.to_thread` is cancelled it returns immediately, while its thread continues: the caller would
then close or remove a file that is still being written. Here a cancelled caller waits until the thread has
finished.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    # A future and not a task: a loop that is shut down cancels tasks, and a thread cannot be cancelled.
    future = asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **keywords))
    interrupted: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
    if interrupted is not None:
        # Retrieved, so that asyncio does not warn about an unhandled error.
        future.exception()
        raise interrupted
    return future.result()
