"""Pause, resume, trigger, backfill and remove a schedule."""

from collections.abc import Callable, Mapping
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from podium.errors import InvalidSchedule, PodiumError
from podium.log.ids import RunId
from podium.log.times import Timestamp, timestamp
from podium.operations.parts import Parts
from podium.operations.schedules.reading import visible_schedule
from podium.operations.schedules.starting import ScheduledRuns
from podium.schedules.calendar import times_between
from podium.schedules.deciding import Step, resumed_step, triggered_step
from podium.schedules.schedule import Backfill, Pause, Schedule

MAX_BACKFILL: Final = 10_000
MAX_BACKFILL_RUNS: Final = 100
_MAX_REASON: Final = 500
_MAX_TRIES: Final = 20


class ScheduleChanged(PodiumError):
    """Other processes changed it repeatedly while this one tried to."""

    code = "SCHEDULE_CHANGED"


class BackfillActive(PodiumError):
    code = "SCHEDULE_BACKFILL_ACTIVE"


async def pause_schedule(parts: Parts, tenant_id: str, schedule_id: str, reason: str) -> Schedule:
    """None of its runs start until it is resumed; open runs continue."""
    await parts.require("schedule.operate", tenant_id)
    if not reason.strip() or len(reason) > _MAX_REASON:
        valid = f"1 to {_MAX_REASON} characters"
        raise InvalidSchedule(f"a pause needs a reason of {valid}", "reason", valid)
    pause = Pause(reason, timestamp(parts.clock.now()), parts.access().actor.name)
    return await change(parts, tenant_id, schedule_id, lambda schedule: replace(schedule, pause=pause))


async def resume_schedule(parts: Parts, tenant_id: str, schedule_id: str) -> Schedule:
    """It continues with its next time; those that passed while it was paused are recorded and not made up for."""
    await parts.require("schedule.operate", tenant_id)
    now = timestamp(parts.clock.now())
    return await change_step(parts, tenant_id, schedule_id, lambda schedule: resumed_step(schedule, now))


async def trigger_schedule(parts: Parts, tenant_id: str, schedule_id: str) -> RunId:
    """Start a run now, even if the schedule is paused or has an open run. Raises what creating a run raises."""
    await parts.require("schedule.operate", tenant_id)
    runs = ScheduledRuns(parts)
    for _ in range(_MAX_TRIES):
        schedule = await visible_schedule(parts, tenant_id, schedule_id)
        step = triggered_step(schedule, timestamp(parts.clock.now()), str(uuid4()))
        assert step.start is not None
        assert step.ticks[0].run_id is not None
        run = await runs.prepare(schedule, step.start.time, step.ticks[0].run_id)
        changed = await parts.store.change_schedule(step.schedule, ticks=step.ticks, run=run)
        if changed is not None and changed.created is not None:
            return changed.created.run.identity.run_id
    raise _changed_too_often(schedule_id)


class BackfillRequest(msgspec.Struct, frozen=True):
    first: Timestamp
    until: Timestamp
    concurrency: int = 1


def times_of(schedule: Schedule, request: BackfillRequest, now: Timestamp) -> list[Timestamp]:
    """The times for which a backfill would start runs. Raises `InvalidSchedule`."""
    if request.until > now:
        raise InvalidSchedule(
            f"a backfill is for the past: its end {request.until} is after {now}",
            "to",
            "a moment in the past",
        )
    if not 1 <= request.concurrency <= MAX_BACKFILL_RUNS:
        raise InvalidSchedule(
            f"{request.concurrency} concurrent runs are not between 1 and {MAX_BACKFILL_RUNS}",
            "concurrency",
            f"a whole number from 1 to {MAX_BACKFILL_RUNS}",
        )
    times = times_between(schedule.definition, request.first, request.until, MAX_BACKFILL + 1)
    if not times:
        raise InvalidSchedule(
            f"the schedule has no time from {request.first} to before {request.until}; check its start and end, too",
            "from",
        )
    if len(times) > MAX_BACKFILL:
        raise InvalidSchedule(
            f"there are more than {MAX_BACKFILL:,} times from {request.first} to {request.until}; "
            "choose a shorter range and start another backfill afterwards",
            "from",
            f"at most {MAX_BACKFILL:,} times",
        )
    return times


async def preview_backfill(
    parts: Parts, tenant_id: str, schedule_id: str, request: BackfillRequest
) -> list[Timestamp]:
    await parts.require("schedule.view", tenant_id)
    schedule = await visible_schedule(parts, tenant_id, schedule_id)
    return times_of(schedule, request, timestamp(parts.clock.now()))


async def backfill_schedule(
    parts: Parts, tenant_id: str, schedule_id: str, request: BackfillRequest
) -> Schedule:
    """Start runs for past times, at most `concurrency` concurrently. Raises `BackfillActive`.

    A time for which the same version of the plan has a run does not get a second one.
    """
    await parts.require("schedule.change", tenant_id)
    now = timestamp(parts.clock.now())

    def filling(schedule: Schedule) -> Schedule:
        if schedule.backfill is not None:
            raise BackfillActive(
                f"schedule {schedule_id!r} has a backfill from {schedule.backfill.first} to "
                f"{schedule.backfill.until} under way; wait for its end, or stop it with "
                f"`podium schedule backfill {schedule_id} --stop`"
            )
        first = times_of(schedule, request, now)[0]
        backfill = Backfill(
            first=request.first, until=request.until, concurrency=request.concurrency, next_time=first
        )
        return replace(schedule, backfill=backfill)

    return await change(parts, tenant_id, schedule_id, filling)


async def stop_backfill(parts: Parts, tenant_id: str, schedule_id: str) -> Schedule:
    """None of its further runs start; open ones continue."""
    await parts.require("schedule.change", tenant_id)
    return await change(parts, tenant_id, schedule_id, lambda schedule: replace(schedule, backfill=None))


async def remove_schedule(parts: Parts, tenant_id: str, schedule_id: str) -> None:
    """Also removes the record of its times. Its runs are kept."""
    await parts.require("schedule.change", tenant_id)
    await visible_schedule(parts, tenant_id, schedule_id)
    await parts.store.remove_schedule(tenant_id, schedule_id)


async def change(
    parts: Parts,
    tenant_id: str,
    schedule_id: str,
    decide: Callable[[Schedule], Schedule],
    *,
    contents: Mapping[str, bytes] | None = None,
) -> Schedule:
    """Repeats the decision if a ticker has changed the schedule since it was read."""
    return await change_step(
        parts, tenant_id, schedule_id, lambda schedule: Step(decide(schedule)), contents=contents
    )


async def change_step(
    parts: Parts,
    tenant_id: str,
    schedule_id: str,
    decide: Callable[[Schedule], Step],
    *,
    contents: Mapping[str, bytes] | None = None,
) -> Schedule:
    """The same for a decision that also writes records of times."""
    for _ in range(_MAX_TRIES):
        step = decide(await visible_schedule(parts, tenant_id, schedule_id))
        changed = await parts.store.change_schedule(step.schedule, ticks=step.ticks, contents=contents)
        if changed is not None:
            return changed.schedule
    raise _changed_too_often(schedule_id)


def _changed_too_often(schedule_id: str) -> ScheduleChanged:
    return ScheduleChanged(f"schedule {schedule_id!r} was changed by others again and again; try again")
