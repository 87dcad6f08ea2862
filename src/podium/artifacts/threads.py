"""Blocking work beside the event loop, never abandoned half-way.

`asyncio.to_thread` returns at once when it is cancelled, while its thread continues: the caller would then close or
remove a file that is still being written. Here a cancelled caller waits until the thread has come back.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    # A future and not a task: when the loop is shut down it cancels tasks, and a thread cannot be cancelled.
    future = asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **keywords))
    interrupted: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
    if interrupted is not None:
        # Looked at, so that asyncio does not complain about an error nobody saw.
        future.exception()
        raise interrupted
    return future.result()
