"""Reports that no live process drives a run, while a command follows it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from podium.cli.hints import say
from podium.log.runs import Run
from podium.operations.drive import LOOK_SECONDS
from podium.operations.driving import undriven
from podium.ports.store import Store


@contextlib.asynccontextmanager
async def saying_when_undriven(store: Store, run: Run) -> AsyncIterator[None]:
    """While a run is followed: report on standard error when no live process drives it."""
    watching = asyncio.create_task(_say_when_undriven(store, run))
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


async def _say_when_undriven(store: Store, run: Run) -> None:
    said: str | None = None
    while True:
        lost = await undriven(store, await store.get_run(run.identity.run_id))
        # Once for each driver: the computed expiry of a frozen driver's lease may differ by a microsecond.
        if lost is not None and lost.owner != said:
            say(lost.text(), err=True)
        said = lost.owner if lost is not None else None
        await asyncio.sleep(LOOK_SECONDS)
