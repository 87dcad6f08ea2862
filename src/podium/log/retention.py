"""How long an artifact is promised to be kept, by its kind.

The promise is written into the reference when the artifact is made, so that whoever reads the log later knows it
without asking for the policy of that day. Nothing is removed at that moment: removing is a person's decision
(`podium prune`), and an artifact that a kept run still refers to is never removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from podium.log.times import Timestamp, timestamp


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long each kind is kept; None is for ever."""

    by_kind: Mapping[str, timedelta | None] = field(default_factory=dict)
    default: timedelta | None = None


def expiry(kind: str, now: datetime, policy: RetentionPolicy) -> Timestamp | None:
    """The `expires_at` of an artifact of this kind that is made now; None when it is kept for ever."""
    kept = policy.by_kind.get(kind, policy.default)
    return None if kept is None else timestamp(now + kept)
