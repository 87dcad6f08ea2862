"""A run that this process has claimed: the driver, its tasks and views, and what happens beside them.

The lease is renewed while the run is driven. Nothing of a run stays behind when it is left.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.engines.control import Control, Left, leave_when_idle, report_waiting
from podium.engines.hosting import prepare_run
from podium.engines.parts import LocalParts
from podium.engines.start import start_facts
from podium.log.events import EventType
from podium.log.transitions import TERMINAL
from podium.machine.progress import Progress
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded
from podium.runtime.checkpoints import CheckpointWriter
from podium.runtime.draining import watch_draining
from podium.runtime.drive import Driver
from podium.runtime.ends import ended_by
from podium.runtime.inbox import PendingEvent
from podium.runtime.lease_keeper import LeaseKeeper
from podium.runtime.lock import RunLock
from podium.runtime.reopening import Reopening
from podium.runtime.run_views import RunViews
from podium.runtime.rundir import RunDirectory
from podium.runtime.view_trouble import ViewTrouble
from podium.runtime.world import World

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.runtime.alerts import Alerting

_FLUSH_SECONDS: Final = 0.25


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """What the one who has a run driven wants to see, and to wait for."""

    observers: Sequence[Observer]
    on_driving: Callable[[Driving], None] | None
    on_waiting: Callable[[Progress], None] | None
    notify: Callable[[Notice], None] | None
    no_wait: bool
    check: bool


class ClaimedRun(msgspec.Struct, frozen=True):
    """One process's work on one run, from its claim on."""

    reopening: Reopening
    lock: RunLock
    keeper: LeaseKeeper
    control: Control


async def drive_claimed(parts: LocalParts, claimed: ClaimedRun, caller: Caller) -> RunEnded:
    """To its end, or until this process leaves it."""
    keeper = claimed.keeper
    run_id = claimed.reopening.run_id
    patiently = partial(parts.patiently, run_id, notify=caller.notify)
    run = await patiently(claimed.reopening.check)  # much may have happened while we waited for the claim
    directory = parts.directory(run_id)
    prepared = await patiently(partial(prepare_run, parts, run, check=caller.check, alone=True))
    plan, tasks, earlier = prepared.plan, prepared.tasks, prepared.earlier
    outages = parts.outages(run_id, caller.notify)
    outages.on_return.append(keeper.wake)
    world = World(
        parts.store,
        parts.clock,
        await earlier.with_results(tasks),
        tasks.ask,
        observers=[*caller.observers, *parts.observers_of(run)],
        outages=outages,
        payloads=parts.values(run_id),
        artifact_ages=parts.artifact_ages,
    )
    driver = Driver(plan, run.identity, keeper.lease.fence, world)
    tasks.lease_holds = driver.is_leased
    views = RunViews(directory, plan, run_id, driver, claimed.lock.is_held, ViewTrouble(caller.notify))
    await views.open(parts.store, is_new=run.head <= 1)
    try:
        world.views += views.observers
        world.state_views.append(views.state)
        world.sync_views = views.journal.sync
        world.checkpoints = CheckpointWriter(parts.store, run_id, plan, views.saved)
        is_open = run.status not in TERMINAL
        if not is_open and claimed.reopening.is_wanted:
            await patiently(partial(claimed.reopening.carry_out, keeper.lease))
            is_open = True
        if is_open and not prepared.has_started and not claimed.control.was_queued:
            started = start_facts(
                plan,
                prepared.asked.inputs,
                prepared.facts,
                prepared.host,
                approved_sha256=prepared.approved_sha256,
            )
            if not await earlier.start(started, keeper.lease, world):
                driver.submit(PendingEvent(EventType.RUN_STARTED, payload=started))
        claimed.control.begin(driver, outages)
        helpers = [asyncio.create_task(one) for one in _beside(parts, claimed, caller, driver, views)]
        try:
            return ended_by(await driver.drive())
        except Left as left:
            return RunEnded(run_id, LEFT, RESUMABLE, str(left), "")
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            # Nothing of a run is left running. If it has not ended, the ends of its tasks are no longer
            # recorded: the lease is lost, the store is unavailable, or this process ends.
            await tasks.close()
    finally:
        views.close()


def _beside(
    parts: LocalParts, claimed: ClaimedRun, caller: Caller, driver: Driver, views: RunViews
) -> Iterator[Coroutine[Any, Any, None]]:
    """Background tasks while the run is driven."""
    run_id = claimed.reopening.run_id

    def alerting() -> "Alerting":
        from podium.runtime.alerts import Alerting

        return Alerting(parts.store, parts.clock)

    yield claimed.keeper.keep(driver)
    yield claimed.lock.refresh()
    yield _keep_up(parts.directory(run_id), claimed.control, driver, views)
    yield watch_draining(driver, run_id, alerting)
    yield leave_when_idle(parts.store, run_id, driver, no_wait=caller.no_wait)
    if caller.on_waiting is not None:
        yield report_waiting(driver, caller.on_waiting)


async def _keep_up(directory: RunDirectory, control: Control, driver: Driver, views: RunViews) -> None:
    """Periodically flush views to the run directory and honour its `.cancel` marker."""
    while True:
        await asyncio.sleep(_FLUSH_SECONDS)
        if directory.cancel_marker.exists():
            owner = _owner_of(directory.cancel_marker)
            directory.cancel_marker.unlink(missing_ok=True)
            control.cancel("asked for by .cancel", by=owner)
        driver.flush_views()
        views.state.write_if_due()
        views.journal.keep_up()


def _owner_of(marker: Path) -> "Actor | None":
    from podium.access.actors import Actor, Method
    from podium.runtime.callers import user_name

    try:
        uid = marker.lstat().st_uid
    except OSError:
        return None
    return Actor(user_name(uid), Method.FILE, uid)
