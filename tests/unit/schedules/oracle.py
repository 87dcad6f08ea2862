"""Times of cron expressions, found in another way than the product finds them: by trying every minute of every day."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    # Clocks are set by half an hour.
    "Australia/Lord_Howe",
    # Clocks are set at midnight.
    "America/Santiago",
    # Never set, and 45 minutes off.
    "Asia/Kathmandu",
)
EXPRESSIONS = (
    "* * * * *",
    "*/7 * * * *",
    "*/30 * * * *",
    "0 * * * *",
    "15 * * * *",
    "59 * * * *",
    "*/15 2 * * *",
    "*/20 0-3 * * *",
    "* 2 * * *",
    "30 * * * SUN",
    "0 0 * * *",
    "1 0 * * *",
    "30 0 * * *",
    "0 1 * * *",
    "30 1 * * *",
    "59 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "45 2 * * *",
    "0 3 * * *",
    "1 3 * * *",
    "0,30 1,2,3 * * *",
    "10-20/5 2 * * *",
    "0 2,3 * * *",
    "0 0-4 * * *",
    "5 */2 * * *",
    "30 23 * * *",
    "0 12 * * MON-FRI",
    "30 2 * * SUN",
    "30 1 * * 7",
    "30 2 29 2 *",
    "0 0 29 2 *",
    "30 2 29 * *",
    "0 0 L * *",
    "30 1 LW * *",
    "0 4 1 MAR *",
    "30 2 * MAR,OCT,NOV,APR,SEP SUN#2",
    "0 2 * * SUN#1",
    "30 2 28,29 FEB *",
)
assert len(EXPRESSIONS) == 40
assert len(ZONES) == 6


def windows(zone: str) -> list[tuple[datetime, datetime]]:
    """Two days around each change of the clocks in 2026, and the end of February in three years."""
    changes = [
        day
        for day in (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(365))
        if _offset(day, zone) != _offset(day + timedelta(days=1), zone)
    ]
    februaries = [datetime(year, 2, 27, 12, tzinfo=UTC) for year in (2026, 2028, 2100)]
    return [(day - timedelta(hours=12), day + timedelta(hours=36)) for day in [*changes, *februaries]]


def times_in(expression: str, zone: str, first: datetime, until: datetime) -> list[datetime]:
    """After `first` and before `until`, in order."""
    found = set(_all(expression, zone, first, until))
    return sorted(moment for moment in found if first < moment < until)


def _all(expression: str, zone: str, first: datetime, until: datetime) -> Iterator[datetime]:
    parsed = CronSim(expression, first)
    minute, hour, *_ = expression.split()
    follows_elapsed_time = minute.startswith("*") or hour.startswith("*")
    day = first.date() - timedelta(days=2)
    while day <= until.date() + timedelta(days=2):
        if day.month in parsed.months and parsed.match_day(day):
            for local in _times_of(day, parsed):
                yield from _moments(local, ZoneInfo(zone), both=follows_elapsed_time)
        day += timedelta(days=1)


def _times_of(day: date, parsed: CronSim) -> Iterator[datetime]:
    for hour in sorted(parsed.hours):
        for minute in sorted(parsed.minutes):
            yield datetime.combine(day, time(hour, minute))


def _moments(local: datetime, zone: ZoneInfo, *, both: bool) -> Iterator[datetime]:
    """The moments that clocks show this time: both of two, or the first; and if none does, the end of the gap."""
    shown = {
        moment
        for fold in (0, 1)
        if (moment := local.replace(tzinfo=zone, fold=fold).astimezone(UTC))
        .astimezone(zone)
        .replace(tzinfo=None)
        == local
    }
    if both:
        yield from shown
    elif shown:
        yield min(shown)
    else:
        yield from _moments(local + timedelta(minutes=1), zone, both=False)


def _offset(day: datetime, zone: str) -> timedelta | None:
    return day.astimezone(ZoneInfo(zone)).utcoffset()
