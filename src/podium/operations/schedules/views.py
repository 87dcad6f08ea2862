"""The presentation of a schedule, which is the same on the command line and over HTTP."""

from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from podium.log.times import Timestamp
from podium.schedules.calendar import times_after
from podium.schedules.checking import describe_cron
from podium.schedules.schedule import Backfill, Cron, Every, Once, Overlap, Pause, Schedule, Tick, Times


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    # It has no further times.
    ENDED = "ended"


class PlanView(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    version: str
    sha256: str


class PauseView(msgspec.Struct, frozen=True, rename="camel"):
    reason: str
    at: Timestamp
    by: str


class BackfillView(msgspec.Struct, frozen=True, rename="camel"):
    first: Timestamp
    until: Timestamp
    concurrency: int
    started: int
    open_runs: tuple[str, ...]
    next_time: Timestamp | None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    tenant: str
    state: ScheduleState
    times: Times
    describes: str
    plan: PlanView
    inputs: dict[str, Any]
    pool: str
    overlap: Overlap
    jitter: int
    catch_up: int
    start: Timestamp | None
    end: Timestamp | None
    pause: PauseView | None
    # When the next runs start: their times plus jitter.
    next_starts: tuple[Timestamp, ...]
    next_times: tuple[Timestamp, ...]
    waiting: tuple[Timestamp, ...]
    open_runs: tuple[str, ...]
    backfill: BackfillView | None
    created_at: Timestamp
    created_by: str
    revision: int


class TickView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    number: int
    time: Timestamp
    kind: str
    outcome: str
    at: Timestamp
    run_id: str | None = None
    code: str = ""
    message: str = ""
    count: int = 1
    until: Timestamp | None = None


def view_of(schedule: Schedule, count: int = 5) -> ScheduleView:
    """Includes its next `count` times."""
    definition = schedule.definition
    times = next_times(schedule, count)
    return ScheduleView(
        id=schedule.schedule_id,
        tenant=schedule.tenant_id,
        state=state_of(schedule),
        times=definition.times,
        describes=describe_times(definition.times),
        plan=PlanView(definition.plan_id, definition.plan_version, definition.plan_sha256),
        inputs=definition.inputs,
        pool=definition.pool,
        overlap=definition.overlap,
        jitter=definition.jitter,
        catch_up=definition.catch_up,
        start=definition.start,
        end=definition.end,
        pause=_pause_view(schedule.pause),
        next_starts=tuple(schedule.starts_at(time) for time in times),
        next_times=times,
        waiting=schedule.waiting,
        open_runs=schedule.open_runs,
        backfill=_backfill_view(schedule.backfill),
        created_at=schedule.created_at,
        created_by=schedule.created_by,
        revision=schedule.revision,
    )


def tick_view(tick: Tick) -> TickView:
    return TickView(
        number=tick.number,
        time=tick.time,
        kind=tick.kind.value,
        outcome=tick.outcome.value,
        at=tick.at,
        run_id=tick.run_id,
        code=tick.code,
        message=tick.message,
        count=tick.count,
        until=tick.until,
    )


def next_times(schedule: Schedule, count: int) -> tuple[Timestamp, ...]:
    """The times that are handled next, if it is not paused."""
    first = schedule.next_time
    if first is None or count <= 0:
        return ()
    return (first, *islice(times_after(schedule.definition, first), count - 1))


def state_of(schedule: Schedule) -> ScheduleState:
    if schedule.pause is not None:
        return ScheduleState.PAUSED
    return ScheduleState.ACTIVE if schedule.due_at is not None else ScheduleState.ENDED


def describe_times(times: Times) -> str:
    match times:
        case Cron(expression, timezone):
            return f"{describe_cron(expression)} ({timezone})"
        case Every(seconds, anchor):
            return f"every {describe_seconds(seconds)} from {anchor}"
        case Once(at):
            return f"once, {at}"


def describe_seconds(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _pause_view(pause: Pause | None) -> PauseView | None:
    return PauseView(pause.reason, pause.at, pause.by) if pause is not None else None


def _backfill_view(backfill: Backfill | None) -> BackfillView | None:
    if backfill is None:
        return None
    return BackfillView(
        backfill.first,
        backfill.until,
        backfill.concurrency,
        backfill.started,
        backfill.open_runs,
        backfill.next_time,
    )
