"""Following a run that another process drives: its progress is read from the log, and so is its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import click

from podium.cli.places import say
from podium.cli.progress import ProgressView
from podium.cli.waiting import PersonsTurn
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.machine import Machine
from podium.operations.driving import drivers_of, undriven
from podium.plan.plan import Plan
from podium.ports.engine import RunEnded
from podium.ports.store import Store
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked
from podium.runtime.plan_file import load_plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import Values, values_of, whole
from podium.wiring import payload_store

_LOOK_SECONDS: Final = 0.2


class FollowedTurn:
    """What a run that another process drives waits for from a person: its log says so."""

    def __init__(self, view: ProgressView, plan: Plan, run_id: RunId, values: Callable[[], Values]) -> None:
        self._machine = Machine(plan)
        self._turn = PersonsTurn(view, run_id)
        self._values = values

    @classmethod
    async def of(cls, store: Store, folder: Path, run: Run, view: ProgressView) -> "FollowedTurn":
        """At the head of the log that the run was read with."""
        run_id, directory = run.identity.run_id, RunDirectory(folder, run.identity.run_id)
        values = values_of(store, run_id, directory, payload_store)
        turn = cls(view, await load_plan(store, directory, run), run_id, values)
        after = 0
        while records := await store.read(run_id, after=after, limit=run.head - after):
            after = records[-1].run_seq
            await turn._take(records)
        return turn

    async def observe(self, records: list[EventRecord]) -> None:
        await self._take(records)
        self._turn.owed(self._machine.obligations())

    async def _take(self, records: Sequence[EventRecord]) -> None:
        self._turn.observe(records)
        for record in records:
            self._machine.advance(await whole(record, self._values))


async def drive_or_follow(
    store: Store, folder: Path, run: Run, view: ProgressView, drive: Callable[[], Awaitable[RunEnded]]
) -> RunEnded:
    """Drive the run if no living process does, else show what that one does; to the end of the run."""
    followed = run.head
    turn: FollowedTurn | None = None
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
        turn = turn or await FollowedTurn.of(store, folder, run, view)
        async for records in until_undriven(store, run, after=followed):
            view.observe(records)
            await turn.observe(records)
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
    said: str | None = None
    while True:
        lost = await undriven(store, await store.get_run(run.identity.run_id))
        # Once for each driver: when the lease of a frozen one lapsed is not measured to the same microsecond twice.
        if lost is not None and lost.owner != said:
            say(lost.text(), err=True)
        said = lost.owner if lost is not None else None
        await asyncio.sleep(_LOOK_SECONDS)
