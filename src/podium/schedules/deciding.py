"""What a schedule does next: a function of its state, the open runs and the time.

waiting    a time whose turn has come, because the previous run has ended
due        the next time: a run, a place in the queue, or a record of why there is none
backfill   one more past time, if fewer of its runs are open than allowed
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from podium.log.times import Timestamp, later, seconds_between
from podium.schedules.calendar import next_time, times_after
from podium.schedules.schedule import (
    MAX_WAITING,
    Backfill,
    Definition,
    Overlap,
    Schedule,
    Tick,
    TickKind,
    TickOutcome,
)

# Missed times are only counted up to this; a schedule for every minute misses as many in a week.
MAX_MISSED: Final = 10_000
_REPLACED: Final = "the schedule was replaced before its run started"


class Start(msgspec.Struct, frozen=True):
    """A run that is to be created for a time."""

    time: Timestamp
    kind: TickKind


class Step(msgspec.Struct, frozen=True):
    """The new state, the records, and the run that is created in the same transaction."""

    schedule: Schedule
    ticks: tuple[Tick, ...] = ()
    start: Start | None = None


def next_step(schedule: Schedule, now: Timestamp, open_runs: frozenset[str], run_id: str) -> Step | None:
    """None if there is nothing to do now. `run_id`: for the run that is started, if one is."""
    if schedule.pause is not None:
        return None
    schedule = replace(schedule, open_runs=tuple(run for run in schedule.open_runs if run in open_runs))
    if schedule.waiting and not schedule.open_runs:
        first, *rest = schedule.waiting
        return _started(replace(schedule, waiting=tuple(rest)), first, now, run_id)
    if schedule.next_time is not None and schedule.starts_at(schedule.next_time) <= now:
        return _due(schedule, schedule.next_time, now, run_id)
    if schedule.backfill is not None:
        return _backfilled(schedule, schedule.backfill, now, open_runs, run_id)
    return None


def runs_to_cancel(schedule: Schedule) -> tuple[str, ...]:
    """Those that have to end because a later time waits for that."""
    if schedule.definition.overlap is Overlap.CANCEL_OTHER and schedule.waiting and schedule.pause is None:
        return schedule.open_runs
    return ()


def failed_step(schedule: Schedule, step: Step, code: str, message: str) -> Step:
    """Replaces a step whose run could not be created: the time is recorded as failed."""
    assert step.start is not None
    # Without the run that was not created.
    after, backfill = step.schedule, step.schedule.backfill
    if backfill is not None and schedule.backfill is not None and step.start.kind is TickKind.BACKFILL:
        backfill = replace(backfill, open_runs=schedule.backfill.open_runs, started=schedule.backfill.started)
    known = set(schedule.open_runs)
    after = replace(after, backfill=backfill, open_runs=tuple(run for run in after.open_runs if run in known))
    tick = replace(step.ticks[-1], outcome=TickOutcome.FAILED, run_id=None, code=code, message=message)
    return Step(after, (*step.ticks[:-1], tick))


def triggered_step(schedule: Schedule, now: Timestamp, run_id: str) -> Step:
    """A run for this moment, requested by a person, even if runs are open or it is paused."""
    tick = _tick(now, TickKind.TRIGGERED, TickOutcome.STARTED, now, run_id=run_id)
    return Step(schedule, (tick,), Start(now, TickKind.TRIGGERED))


def _due(schedule: Schedule, time: Timestamp, now: Timestamp, run_id: str) -> Step:
    if later(schedule.starts_at(time), schedule.definition.catch_up) < now:
        return _missed(schedule, time, now)
    schedule = replace(schedule, next_time=next_time(schedule.definition, time))
    overlap = schedule.definition.overlap
    if overlap is Overlap.ALLOW or not (schedule.open_runs or schedule.waiting):
        return _started(schedule, time, now, run_id)
    if overlap is Overlap.CANCEL_OTHER:
        replaced = tuple(_skipped(before, now, "a later time replaced it") for before in schedule.waiting)
        return Step(replace(schedule, waiting=(time,)), replaced)
    limit = {Overlap.QUEUE: MAX_WAITING, Overlap.BUFFER_ONE: 1}.get(overlap, 0)
    if len(schedule.waiting) < limit:
        return Step(replace(schedule, waiting=(*schedule.waiting, time)))
    return Step(schedule, (_skipped(time, now, _why_skipped(schedule, limit)),))


def _why_skipped(schedule: Schedule, limit: int) -> str:
    if limit:
        return f"{limit} earlier time{' waits' if limit == 1 else 's wait'} already"
    return f"run {schedule.open_runs[0]} of an earlier time is open"


def resumed_step(schedule: Schedule, now: Timestamp) -> Step:
    """No longer paused: it continues with its next time. Those that have passed are skipped, as one record."""
    if schedule.pause is None:
        return Step(schedule)
    step = _without_passed(schedule, now, "the schedule was paused")
    return replace(step, schedule=replace(step.schedule, pause=None))


def replaced_step(schedule: Schedule, definition: Definition, first: Timestamp, now: Timestamp) -> Step:
    """With another definition, which begins with `first`. Times of the old one that have come and have no run
    are skipped.
    """
    waited = tuple(_skipped(time, now, _REPLACED) for time in schedule.waiting)
    passed = _without_passed(
        schedule, now, _REPLACED if schedule.pause is None else "the schedule was paused"
    )
    after = replace(schedule, definition=definition, next_time=first, waiting=(), backfill=None)
    return Step(after, (*waited, *passed.ticks))


def _without_passed(schedule: Schedule, now: Timestamp, message: str) -> Step:
    time = schedule.next_time
    if time is None or time > now:
        return Step(schedule)
    passed = _passed(schedule.definition, time, later(now, 1e-6))
    tick = _tick(time, TickKind.SCHEDULED, TickOutcome.SKIPPED, now, message=message)
    return Step(
        replace(schedule, next_time=passed.following), (replace(tick, count=passed.count, until=passed.last),)
    )


def _missed(schedule: Schedule, time: Timestamp, now: Timestamp) -> Step:
    """All that are too late, as one record. Nothing in the schedule looks further back than its catch-up
    window.
    """
    definition = schedule.definition
    delay = seconds_between(time, schedule.starts_at(time))
    passed = _passed(definition, time, later(now, -definition.catch_up - delay))
    message = f"not acted on within {definition.catch_up} seconds" + (
        f"; there may be more than {MAX_MISSED:,} such times" if passed.count == MAX_MISSED else ""
    )
    tick = _tick(time, TickKind.SCHEDULED, TickOutcome.MISSED, now, message=message)
    return Step(
        replace(schedule, next_time=passed.following), (replace(tick, count=passed.count, until=passed.last),)
    )


class _Passed(msgspec.Struct, frozen=True):
    count: int
    last: Timestamp
    following: Timestamp | None


def _passed(definition: Definition, first: Timestamp, until: Timestamp) -> _Passed:
    """The times from `first` to before `until`, and the next one."""
    count, last = 1, first
    for found in times_after(definition, first):
        if found >= until:
            return _Passed(count, last, found)
        if count == MAX_MISSED:
            # Further ones are not counted.
            return _Passed(count, last, next_time(definition, later(until, -1e-6)))
        count, last = count + 1, found
    return _Passed(count, last, None)


def _started(schedule: Schedule, time: Timestamp, now: Timestamp, run_id: str) -> Step:
    if schedule.definition.overlap is not Overlap.ALLOW:
        schedule = replace(schedule, open_runs=(*schedule.open_runs, run_id))
    tick = _tick(time, TickKind.SCHEDULED, TickOutcome.STARTED, now, run_id=run_id)
    return Step(schedule, (tick,), Start(time, TickKind.SCHEDULED))


def _backfilled(
    schedule: Schedule, backfill: Backfill, now: Timestamp, open_runs: frozenset[str], run_id: str
) -> Step | None:
    still_open = tuple(run for run in backfill.open_runs if run in open_runs)
    time = backfill.next_time
    if time is None:
        return None if still_open else Step(replace(schedule, backfill=None))
    if len(still_open) >= backfill.concurrency:
        return None
    after = next_time(schedule.definition, time)
    advanced = replace(
        backfill,
        next_time=after if after is not None and after < backfill.until else None,
        started=backfill.started + 1,
        open_runs=(*still_open, run_id),
    )
    tick = _tick(time, TickKind.BACKFILL, TickOutcome.STARTED, now, run_id=run_id)
    return Step(replace(schedule, backfill=advanced), (tick,), Start(time, TickKind.BACKFILL))


def _skipped(time: Timestamp, now: Timestamp, message: str) -> Tick:
    return _tick(time, TickKind.SCHEDULED, TickOutcome.SKIPPED, now, message=message)


def _tick(
    time: Timestamp,
    kind: TickKind,
    outcome: TickOutcome,
    now: Timestamp,
    *,
    run_id: str | None = None,
    message: str = "",
) -> Tick:
    return Tick(time=time, kind=kind, outcome=outcome, at=now, run_id=run_id, message=message)
