"""Moments that a person gives, as an age or as a date."""

from datetime import UTC, datetime

from podium.log.times import Timestamp, timestamp
from podium.operations.retention import parse_age


def moment_of(text: str, now: datetime) -> Timestamp | None:
    """`7d` before now, or a date or moment of ISO 8601, in UTC if it does not say otherwise; None if it is neither."""
    return _moment(text, now, -1)


def later_moment_of(text: str, now: datetime) -> Timestamp | None:
    """The same with `90d` after now."""
    return _moment(text, now, 1)


def _moment(text: str, now: datetime, direction: int) -> Timestamp | None:
    try:
        age = parse_age(text)
        if age is not None:
            return timestamp(now + direction * age)
        moment = datetime.fromisoformat(text)
        return timestamp(moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None
