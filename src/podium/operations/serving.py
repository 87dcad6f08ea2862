"""Executes runs for another engine, until stopped. A worker serves the runs of every tenant."""

import asyncio
from collections.abc import Awaitable, Callable

from podium.operations.parts import Parts


async def serve_runs(
    parts: Parts,
    serve: Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]],
    stop: asyncio.Event,
    on_ready: Callable[[], None],
) -> None:
    """`serve`: the worker's method. Raises `NotAllowed`."""
    await parts.require_everywhere("worker.serve")
    await serve(stop, on_ready)
