"""Following a run that another process drives: its progress is read from the log, and so is its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import click

from podium.cli.places import say
from podium.cli.progress import ProgressView
from podium.model.events import EventRecord
from podium.model.runs import Run
from podium.model.transitions import TERMINAL
from podium.operations.driving import RunDriver, drivers_of, undriven
from podium.ports.engine import RunEnded
from podium.ports.store import Store
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked

_LOOK_SECONDS: Final = 0.2


async def drive_or_follow(
    store: Store, run: Run, view: ProgressView, drive: Callable[[], Awaitable[RunEnded]]
) -> RunEnded:
    """Drive the run if no living process does, else show what that one does; to the end of the run."""
    followed = run.head
    said = ""
    while True:
        ended = await _end_of(store, run)
        if ended is not None:
            return ended
        try:
            return await drive()
        except RunLocked:
            now = (await drivers_of(store, [await store.get_run(run.identity.run_id)])).values()
            title = next((driver.title for driver in now if driver.is_alive), "")
            if title and title != said:
                said = title
                click.echo(f"{title} drives this run; Ctrl-C here does not stop it", err=True)
        async for records in until_undriven(store, run, after=followed):
            view.observe(records)
            followed = records[-1].run_seq
        await asyncio.sleep(_LOOK_SECONDS)


async def _end_of(store: Store, run: Run) -> RunEnded | None:
    end = await last_end(store, await store.get_run(run.identity.run_id))
    return ended_by(end) if end is not None else None


async def until_undriven(store: Store, run: Run, *, after: int) -> AsyncIterator[list[EventRecord]]:
    """The events of a run as they come, until it has ended or no living process drives it."""
    run_id = run.identity.run_id
    while True:
        run = await store.get_run(run_id)
        lost = await undriven(store, run)
        while records := await store.read(run_id, after=after):
            after = records[-1].run_seq
            yield records
        if lost is not None or run.status in TERMINAL:
            return
        await asyncio.sleep(_LOOK_SECONDS)


@contextlib.asynccontextmanager
async def saying_when_undriven(store: Store, run: Run) -> AsyncIterator[None]:
    """While somebody follows a run: say on standard error when no living process drives it."""
    watching = asyncio.create_task(_say_when_undriven(store, run))
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


async def _say_when_undriven(store: Store, run: Run) -> None:
    said: RunDriver | None = None
    while True:
        lost = await undriven(store, await store.get_run(run.identity.run_id))
        if lost is not None and lost != said:
            say(lost.text(), err=True)
        said = lost
        await asyncio.sleep(_LOOK_SECONDS)
