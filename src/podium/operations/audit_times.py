"""Moments entered by a person, as an age or as a date."""

from datetime import UTC, datetime

from podium.log.times import Timestamp, timestamp
from podium.operations.retention import parse_age


def moment_of(text: str, now: datetime) -> Timestamp | None:
    """`7d` before now, or an ISO 8601 date or moment, in UTC by default; None for anything else."""
    return _moment(text, now, -1)


def later_moment_of(text: str, now: datetime) -> Timestamp | None:
    """The same, but `90d` means after now."""
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
