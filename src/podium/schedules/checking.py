"""Whether a schedule is valid, and if not, what is wrong and where, and what would be valid."""

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from podium.errors import InvalidId, InvalidSchedule
from podium.log.ids import check_id
from podium.log.times import Timestamp, moment, timestamp
from podium.schedules.calendar import next_time
from podium.schedules.schedule import MAX_ID, Cron, Definition, Every
from podium.text import shortened

_FIELDS: Final = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, MON#2, 5L",
}
_MAX_EXPRESSION: Final = 200
_EXPRESSION: Final = f"five fields: {', '.join(_FIELDS)}"
_MAX_DURATION: Final = 366 * 86_400
# Later dates are useless, and computing with them exceeds the valid range.
_MAX_MOMENT: Final = "9000-01-01T00:00:00.000000Z"
_MIN_MOMENT: Final = "1970-01-01T00:00:00.000000Z"


def check_schedule_id(schedule_id: str) -> None:
    check_id("schedule", schedule_id)
    if len(schedule_id) > MAX_ID:
        valid = f"at most {MAX_ID} characters"
        raise InvalidId(f"schedule {shortened(schedule_id)!r} is too long: use {valid}", "schedule", valid)


def check_definition(definition: Definition) -> None:
    """Raises `InvalidSchedule`."""
    times = definition.times
    if isinstance(times, Cron):
        check_timezone(times.timezone)
        check_cron(times.expression)
    elif isinstance(times, Every):
        _check_between("every", times.seconds, 1, _MAX_DURATION)
        _check_moment("start", times.anchor)
    else:
        _check_moment("at", times.at)
    _check_between("jitter", definition.jitter, 0, 86_400)
    _check_between("catch_up", definition.catch_up, 0, _MAX_DURATION)
    for name, value in (("start", definition.start), ("end", definition.end)):
        if value is not None:
            _check_moment(name, value)
    if definition.start is not None and definition.end is not None and definition.end <= definition.start:
        raise InvalidSchedule(f"end {definition.end} is not after start {definition.start}", "end")


def check_has_times(definition: Definition, now: Timestamp) -> Timestamp:
    """The next time. Raises `InvalidSchedule` if there is none."""
    first = next_time(definition, now)
    if first is None:
        raise InvalidSchedule(
            "the schedule has no time in the future; check its expression, `at`, `start` and `end` "
            f"(now it is {now})"
        )
    return first


def check_timezone(name: str) -> None:
    from difflib import get_close_matches

    if name == "UTC":
        return
    known = available_timezones()
    if name in known:
        ZoneInfo(name)
        return
    by_lower = {one.lower(): one for one in sorted(known)}
    near = get_close_matches(name.lower()[:100], by_lower, 1, 0.6)
    hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
    raise InvalidSchedule(
        f"timezone {shortened(ascii(name))} is not known.{hint} Use UTC or a name like Europe/Berlin",
        "timezone",
        "UTC, or a name like Europe/Berlin",
    )


def check_cron(expression: str) -> None:
    from cronsim import CronSim, CronSimError

    if not (expression.isascii() and expression.isprintable()) or len(expression) > _MAX_EXPRESSION:
        raise InvalidSchedule(
            f"cron {shortened(ascii(expression))} is not an expression: use at most {_MAX_EXPRESSION} "
            "letters, digits and * , - / # characters",
            "cron",
            _EXPRESSION,
        )
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        raise InvalidSchedule(
            f"cron {shortened(expression)!r} has {len(fields)} field{'' if len(fields) == 1 else 's'}: write five, "
            f"{', '.join(_FIELDS)}, like '30 2 * * MON-FRI'",
            "cron",
            _EXPRESSION,
        )
    for place, name in enumerate(_FIELDS):
        alone = ["*"] * len(_FIELDS)
        alone[place] = fields[place]
        if not _is_understood(" ".join(alone)):
            raise InvalidSchedule(
                _describe_field(expression, place, name), "cron", f"{name}: {_FIELDS[name]}"
            )
    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidSchedule(
            _describe_field(expression, 2, "day-of-month", "no such month has this day"), "cron"
        ) from error


def _is_understood(expression: str) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except (CronSimError, AssertionError, TypeError, ValueError):  # also combinations that it does not expect
        return False
    return True


def _describe_field(expression: str, place: int, name: str, why: str = "") -> str:
    """The field, and its position in the expression."""
    at, fields = 0, expression.split()
    for field in fields[:place]:
        at = expression.index(field, at) + len(field)
    at = expression.index(fields[place], at)
    reason = why or f"use {_FIELDS[name]}, or lists, ranges and steps of them, like 1,3-5 or */2"
    return (
        f"cron, character {at + 1}: {fields[place]!r} is not a valid {name}: {reason}\n"
        f"   {expression}\n   {' ' * at}{'^' * len(fields[place])}"
    )


def describe_cron(expression: str) -> str:
    """A description in words of a valid expression."""
    from cronsim import CronSim

    return CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)).explain()


def _check_between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidSchedule(
            f"{name} {value} s is not between {least} s and {most} s",
            name,
            f"a whole number from {least} to {most}",
        )


def _check_moment(name: str, value: Timestamp) -> None:
    if not _MIN_MOMENT <= value < _MAX_MOMENT:
        raise InvalidSchedule(f"{name} {value} is not between the years 1970 and 9000", name)
    timestamp(moment(value))
