"""Which times a schedule names: on the days when clocks are set, in leap years, and between its start and end."""

from datetime import UTC, datetime, timedelta

import pytest

from podium.log.times import moment, timestamp
from podium.schedules.calendar import next_time, times_after, times_between
from podium.schedules.schedule import Cron, Definition, Every, Once, Times
from tests.unit.schedules.oracle import EXPRESSIONS, ZONES, times_in, windows


def definition(times: Times, **fields: object) -> Definition:
    return Definition(times=times, plan_id="p", plan_version="1", plan_sha256="", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("zone", ZONES)
def test_every_time_of_an_expression_is_found_once(expression: str, zone: str) -> None:
    for first, until in windows(zone):
        expected = times_in(expression, zone, first, until)
        found = []
        for text in times_after(definition(Cron(expression, zone)), timestamp(first)):
            if moment(text) >= until:
                break
            found.append(moment(text))
        assert found == expected


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/30 * * * *", "0,30 1,2,3 * * *", "0 0 * * *"])
def test_the_next_time_is_the_same_from_every_minute_before_it(expression: str, zone: str) -> None:
    given = definition(Cron(expression, zone))
    for first, until in windows(zone)[:2]:
        expected = [timestamp(time) for time in times_in(expression, zone, first, until + timedelta(days=2))]
        at = first
        while at < until:
            assert next_time(given, timestamp(at)) == next(time for time in expected if time > timestamp(at))
            at += timedelta(minutes=11)


def test_a_fixed_time_in_the_hour_that_does_not_exist_is_the_first_minute_after_it() -> None:
    assert days("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC), 3) == [
        "2026-03-28T01:30:00.000000Z",
        "2026-03-29T01:00:00.000000Z",
        "2026-03-30T00:30:00.000000Z",
    ]


def test_a_fixed_time_in_the_hour_that_exists_twice_is_named_once() -> None:
    assert days("30 2 * * *", "Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), 2) == [
        "2026-10-25T00:30:00.000000Z",
        "2026-10-26T01:30:00.000000Z",
    ]


def days(expression: str, zone: str, first: datetime, count: int) -> list[str]:
    return times_between(
        definition(Cron(expression, zone)), timestamp(first), timestamp(first + timedelta(days=count)), 100
    )


def test_an_interval_counts_from_its_anchor_whatever_was_missed() -> None:
    every = definition(Every(900, "2026-01-01T00:05:00.000000Z"))
    assert next_time(every, "2025-12-31T00:00:00.000000Z") == "2026-01-01T00:05:00.000000Z"
    assert next_time(every, "2026-01-01T00:05:00.000000Z") == "2026-01-01T00:20:00.000000Z"
    assert next_time(every, "2026-07-01T12:34:56.789000Z") == "2026-07-01T12:35:00.000000Z"


def test_a_single_time_comes_once() -> None:
    once = definition(Once("2026-01-01T00:00:00.000000Z"))
    assert next_time(once, "2025-01-01T00:00:00.000000Z") == "2026-01-01T00:00:00.000000Z"
    assert next_time(once, "2026-01-01T00:00:00.000000Z") is None


def test_there_are_no_times_before_the_start_and_from_the_end_on() -> None:
    limited = definition(
        Cron("0 * * * *"), start="2026-01-01T10:00:00.000000Z", end="2026-01-01T12:00:00.000000Z"
    )
    assert list(times_after(limited, "2025-01-01T00:00:00.000000Z")) == [
        "2026-01-01T10:00:00.000000Z",
        "2026-01-01T11:00:00.000000Z",
    ]


def test_an_expression_that_never_matches_has_no_times() -> None:
    # In no year is the 29th of February the sixth Monday of anything.
    never = definition(Cron("0 0 30 2 *"))
    assert next_time(definition(Cron("0 0 29 2 MON#1")), "2026-01-01T00:00:00.000000Z") is not None
    with pytest.raises(Exception, match="day-of-month"):
        next_time(never, "2026-01-01T00:00:00.000000Z")


def test_after_the_last_year_there_is_no_time() -> None:
    yearly = definition(Cron("0 0 1 1 *"))
    assert next_time(yearly, "9999-06-01T00:00:00.000000Z") is None
    assert times_between(yearly, "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z", 10_000) == [
        "2026-01-01T00:00:00.000000Z"
    ]
