"""Moments as text: every event has two, so they are written in a quick way that must say what the plain one says."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import example, given
from hypothesis import strategies as st

from podium.log.times import is_timestamp, moment, timestamp

ZONES = st.just(UTC) | st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES)  # noqa: DTZ001


@given(MOMENTS)
@example(datetime(2026, 1, 1, tzinfo=UTC))
@example(datetime(2026, 1, 1, 12, 0, 0, 10, tzinfo=UTC))
@example(datetime(999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
def test_a_moment_is_written_in_utc_with_six_digits_of_its_second(at: datetime) -> None:
    text = timestamp(at)
    assert text == at.astimezone(UTC).strftime(f"{at.astimezone(UTC).year:04d}-%m-%dT%H:%M:%S.%fZ")
    assert is_timestamp(text)
    assert moment(text) == at
