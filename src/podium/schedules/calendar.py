"""The times of a schedule, one after another.

A time is computed from the previous one and nothing else, so setting a clock neither repeats nor loses one.
When clocks are set forward, a fixed time in the hour that does not exist becomes the first minute that does;
when they are set back, a fixed time in the hour that exists twice is its first occurrence. Expressions with a
wildcard in the minute or the hour follow elapsed time, so that `*/10 * * * *` is every ten minutes on these
days, too.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Final, assert_never
from zoneinfo import ZoneInfo

from podium.log.times import Timestamp, moment, timestamp
from podium.schedules.schedule import Cron, Definition, Every, Once, Times

# Clocks are set back by less than a day, so not more times than these are repeated.
_MAX_REPEATED: Final = 1_500
_MINUTE: Final = timedelta(minutes=1)


def next_time(definition: Definition, after: Timestamp) -> Timestamp | None:
    """The first time that is later than `after`, not before the start and before the end."""
    start, end = definition.start, definition.end
    found = _next(definition.times, moment(after))
    if start is not None and found is not None and timestamp(found) < start:
        found = _next(definition.times, moment(start) - timedelta(microseconds=1))
    text = timestamp(found) if found is not None else None
    return None if text is None or (end is not None and text >= end) else text


def times_after(definition: Definition, after: Timestamp) -> Iterator[Timestamp]:
    while (found := next_time(definition, after)) is not None:
        yield found
        after = found


def times_between(definition: Definition, first: Timestamp, until: Timestamp, limit: int) -> list[Timestamp]:
    """Those from `first` to before `until`, at most `limit`."""
    just_before = timestamp(moment(first) - timedelta(microseconds=1))
    found = takewhile(lambda time: time < until, times_after(definition, just_before))
    return list(islice(found, limit))


def _next(times: Times, after: datetime) -> datetime | None:
    match times:
        case Cron():
            return _next_of_cron(times, after)
        case Every():
            anchor = moment(times.anchor)
            passed = (after - anchor) // timedelta(seconds=times.seconds)
            return anchor + max(0, passed + 1) * timedelta(seconds=times.seconds)
        case Once():
            return at if (at := moment(times.at)) > after else None
        case _:
            assert_never(times)


def _next_of_cron(cron: Cron, after: datetime) -> datetime | None:
    minute, hour, *_ = cron.expression.split()
    find = _next_by_elapsed_time if minute.startswith("*") or hour.startswith("*") else _next_by_the_clock
    try:
        return find(cron, after)
    except OverflowError:
        return None  # dates end with the year 9999


def _next_by_the_clock(cron: Cron, after: datetime) -> datetime | None:
    # An optional package, not needed for other kinds of schedules.
    from cronsim import CronSim

    for local in islice(CronSim(cron.expression, after.astimezone(zone_of(cron))), _MAX_REPEATED):
        in_utc = local.astimezone(UTC)
        # In the second of two equal hours, the fixed times of the first one are found again.
        if in_utc > after:
            return in_utc
    return None


def _next_by_elapsed_time(cron: Cron, after: datetime) -> datetime | None:
    """From one change of the offset to the next: in between, local time is UTC plus a constant.

    Not computed by the package, which assumes that clocks are set by whole hours.
    """
    from cronsim import CronSim

    zone = zone_of(cron)
    offset = _offset(zone, after)
    while True:
        local = next(CronSim(cron.expression, after + offset), None)
        if local is None:
            return None
        change = _first_change(zone, offset, after, local - offset)
        if change is None:
            return local - offset
        after, offset = change - _MINUTE, _offset(zone, change)


def _first_change(zone: tzinfo, offset: timedelta, after: datetime, until: datetime) -> datetime | None:
    """The first minute up to `until` that has another offset; None if there is none."""
    start = after.replace(second=0, microsecond=0)
    while start < until:
        end = min(start + timedelta(days=1), until)
        if _offset(zone, end) != offset:
            minutes = range(1, (end - start) // _MINUTE + 1)
            place = bisect_left(
                minutes, True, key=lambda minute: _offset(zone, start + minute * _MINUTE) != offset
            )
            return start + minutes[place] * _MINUTE
        start = end
    return None


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def zone_of(times: Times) -> tzinfo:
    """The time zone of the schedule's times."""
    return UTC if not isinstance(times, Cron) or times.timezone == "UTC" else ZoneInfo(times.timezone)
