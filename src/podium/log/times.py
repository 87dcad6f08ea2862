"""Moments in events: RFC 3339, UTC, microseconds, always the same width.

Events hold them as text: texts sort correctly, every store and language keeps them unchanged, and most of
them are never used in a computation.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from podium.patterns import lazy_pattern

Timestamp: TypeAlias = str

_encode: Final = msgspec.json.Encoder().encode
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_GIVEN: Final = lazy_pattern(
    rf"{_DATE}(T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?(Z|[+-][0-9]{{2}}:[0-9]{{2}}))?"
)
_FORM: Final = lazy_pattern(rf"{_DATE}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}\.[0-9]{{6}}Z")


def timestamp(moment: datetime) -> Timestamp:
    """An aware moment as text, like 2026-01-01T12:00:00.000000Z."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    # Every event has two of them, and `isoformat` takes five times as long. msgspec omits the fraction of
    # whole seconds.
    text = _encode(in_utc)[1:-1].decode()
    return text if in_utc.microsecond else f"{text[:-1]}.000000Z"


def moment(text: Timestamp) -> datetime:
    return datetime.fromisoformat(text)


def is_timestamp(text: str) -> bool:
    if not _FORM.fullmatch(text):
        return False
    try:
        moment(text)
    except ValueError:
        return False
    return True


def parse_moment(text: str) -> Timestamp | None:
    """A date (its start in UTC) or a moment with its time zone, as people write them; None for anything else."""
    if not _GIVEN.fullmatch(text):
        return None
    try:
        given = datetime.fromisoformat(text)
        return timestamp(given if given.tzinfo is not None else given.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def later(text: Timestamp, seconds: float) -> Timestamp:
    return timestamp(moment(text) + timedelta(seconds=seconds))


def seconds_between(earlier: Timestamp, later: Timestamp) -> float:
    return (moment(later) - moment(earlier)).total_seconds()
