"""Functions of this process as steps (D69): registered under a name, which `python: NAME` calls.

A coroutine function runs in the event loop that drives the run; any other in a thread of its own, so that it
blocks neither the loop nor other steps. A thread cannot be killed: after a timeout or a cancel the step is
over, and what the function still does is ignored. So the threads are daemons, which do not prevent the
program from exiting.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import wraps
from threading import Thread
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def registered(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """In the form in which the engine calls them. Raises ValueError or TypeError for what cannot be a step."""
    for name, function in functions.items():
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be the name of a registered function: use letters, digits and _"
            )
        if not callable(function):
            raise TypeError(f"the function {name!r} cannot be called: it is {function!r}")
    return {
        name: _in_loop(function) if _is_async(function) else in_thread(function)
        for name, function in functions.items()
    }


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )


def _in_loop(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except SystemExit as leaving:
            raise _exits(leaving) from leaving

    return call


def in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The function as a coroutine function that waits for a thread."""

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = copy_context()

        def finish(value: Any, error: BaseException | None) -> None:
            if not done.done():
                done.set_result((value, error))

        def work() -> None:
            value, failure = None, None
            try:
                value = context.run(function, *args, **kwargs)
            except BaseException as error:
                failure = error
            with suppress(RuntimeError):  # the loop is closed: nothing waits for it any more
                loop.call_soon_threadsafe(finish, value, failure)

        Thread(target=work, name=f"podium-{getattr(function, '__name__', 'function')}", daemon=True).start()
        value, failure = await done
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            raise _exits(failure) from failure
        return value

    return call


def _exits(failure: BaseException) -> RuntimeError:
    """SystemExit or KeyboardInterrupt would end the program that waits for the step."""
    return RuntimeError(f"{type(failure).__name__}: {failure}")
