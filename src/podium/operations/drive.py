"""Drives a run to its end, or follows the process that does.

Every way to start (start, resume, rerun) results in a `ReadyRun`, which is then handled in the same way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from podium.errors import PodiumError
from podium.log.engines import LOCAL
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.machine.progress import Progress
from podium.operations.parts import Parts
from podium.ports.engine import Driving, Notice, Observer, RunEnded
from podium.ports.store import Store
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked
from podium.runtime.other_engines import OtherEngine

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.machine import Machine

LOOK_SECONDS: Final = 0.2

OnDriving = Callable[[Driving], None]


class ReadyRun(msgspec.Struct, frozen=True):
    """A run that this process may drive now."""

    run_id: RunId
    # For a run that had ended: the `runSeq` of the end to be undone.
    reopen: int | None = None
    # It was open when its caller decided; if it has ended since, another process did that.
    was_open: bool = False
    # It may have a live driver, which continues it: then it is followed from this event on. None if it must
    # not.
    followed_from: int | None = None
    # It is sent the signal to continue as soon as it is watched.
    is_paused: bool = False
    # Whether to check the run's needs; a run that is to be stopped is driven whatever is missing.
    check: bool = True


def _not_interrupted() -> AbstractContextManager[OnDriving | None]:
    return nullcontext()


class Watch(msgspec.Struct, frozen=True):
    """How a front end watches a run. Its observers see both a run that is driven here and one that is
    followed.
    """

    observers: Sequence[Observer] = ()
    on_waiting: Callable[[Progress], None] | None = None
    # Context around the time in which this process drives the run; returns a callback that is called at its
    # start.
    interrupts: Callable[[], AbstractContextManager[OnDriving | None]] = _not_interrupted
    no_wait: bool = False
    notify: Callable[[Notice], None] | None = None


async def drive(parts: Parts, ready: ReadyRun, watch: Watch) -> RunEnded:
    """Raises `RunLocked` if another process drives a run that is not to be followed."""
    if ready.followed_from is not None:
        return await _drive_or_follow(parts, ready, watch, ready.followed_from)
    return await _drive(parts, ready, watch)


async def _drive(parts: Parts, ready: ReadyRun, watch: Watch, *, lock_wait: float | None = None) -> RunEnded:
    may_force = await _may_force(parts, ready.run_id)
    with watch.interrupts() as on_driving:
        return await parts.engine().drive(
            ready.run_id,
            observers=watch.observers,
            on_waiting=watch.on_waiting,
            on_driving=_named(parts, on_driving, may_force) if on_driving is not None else None,
            reopen=ready.reopen,
            was_open=ready.was_open,
            no_wait=watch.no_wait,
            lock_wait=lock_wait,
            notify=watch.notify,
            check=ready.check,
        )


class _NamedDriving:
    """A run that is driven here for one actor, who is recorded if the run is stopped.

    Without the role for EMERGENCY_STOP the second Ctrl-C is a second CANCEL, which stops `finally`, too.
    """

    def __init__(self, parts: Parts, driving: Driving, may_force: bool) -> None:
        self._parts = parts
        self._driving = driving
        self._may_force = may_force

    def cancel(self, reason: str, *, force: bool = False, by: "Actor | None" = None) -> None:
        self._driving.cancel(reason, force=force and self._may_force, by=by or self._actor())

    def _actor(self) -> "Actor | None":
        # A run can be stopped even if its rules cannot be read any more.
        with suppress(PodiumError):
            return self._parts.access().actor
        return None


def _named(parts: Parts, on_driving: OnDriving, may_force: bool) -> OnDriving:
    return lambda driving: on_driving(_NamedDriving(parts, driving, may_force))


async def _may_force(parts: Parts, run_id: RunId) -> bool:
    """A run of this machine dies with its process, whatever the roles of its actor; one on a server does not."""
    if parts.is_owner:
        return True
    run = await parts.store.get_run(run_id)
    if run.provider == LOCAL:
        return True
    from podium.access.operations import SIGNALS

    operation = SIGNALS["EMERGENCY_STOP"]
    return parts.access().decide(operation, run.identity.tenant_id, "interrupted") is None


async def _drive_or_follow(parts: Parts, ready: ReadyRun, watch: Watch, followed: int) -> RunEnded:
    """Drive the run if no live process does, else show its progress there; to the end of the run."""
    from podium.operations.driving import open_driver

    if ready.is_paused:
        await _let_continue(parts, ready.run_id)
    follower: Follower | None = None
    said = ""
    while True:
        run = await parts.store.get_run(ready.run_id)
        end = await last_end(parts.store, run)
        if end is not None:
            return ended_by(end)
        try:
            return await _drive(parts, ready, watch, lock_wait=0.0)
        except (RunLocked, OtherEngine):
            driver = await open_driver(parts.store, run)
            if driver is not None and driver.is_alive and driver.title != said:
                said = driver.title
                parts.notify(f"{said} drives this run; Ctrl-C here does not stop it")
        follower = follower or await Follower.at(parts, run, followed, watch)
        async for records in until_undriven(parts.store, run, after=followed):
            await follower.observe(records)
            followed = records[-1].run_seq
        await asyncio.sleep(LOOK_SECONDS)


async def _let_continue(parts: Parts, run_id: RunId) -> None:
    from podium.operations.signal_refusals import RunIsOver
    from podium.operations.signals import signal_run

    tenant_id = (await parts.store.get_run(run_id)).identity.tenant_id
    with suppress(RunIsOver):
        await signal_run(parts, tenant_id, run_id, "RESUME")


class Follower:
    """Shows a watcher the progress of a run that another process drives, and what it waits for, from its log."""

    def __init__(self, parts: Parts, run_id: RunId, machine: "Machine", watch: Watch) -> None:
        self._machine = machine
        self._values = parts.values(run_id)
        self._watch = watch

    @classmethod
    async def at(cls, parts: Parts, run: Run, seq: int, watch: Watch) -> "Follower":
        """Starting at an event of the log that the watcher has seen."""
        from podium.machine import Machine

        run_id = run.identity.run_id
        follower = cls(parts, run_id, Machine(await parts.plan_of(run)), watch)
        after = 0
        while records := await parts.store.read(run_id, after=after, limit=seq - after):
            after = records[-1].run_seq
            await follower._fold(records)
        return follower

    async def observe(self, records: Sequence[EventRecord]) -> None:
        for observer in self._watch.observers:
            observer(records)
        await self._fold(records)
        if self._watch.on_waiting is not None:
            self._watch.on_waiting(self._machine.progress())

    async def _fold(self, records: Sequence[EventRecord]) -> None:
        from podium.runtime.spilling import whole

        for record in records:
            self._machine.advance(await whole(record, self._values))


async def until_undriven(store: Store, run: Run, *, after: int) -> AsyncIterator[list[EventRecord]]:
    """New events of a run, until it has ended or no live process drives it."""
    from podium.operations.driving import undriven

    run_id = run.identity.run_id
    while True:
        run = await store.get_run(run_id)
        lost = await undriven(store, run)
        while records := await store.read(run_id, after=after):
            after = records[-1].run_seq
            yield records
        if lost is not None or run.status in TERMINAL:
            return
        await asyncio.sleep(LOOK_SECONDS)
