"""Counters of a serving process since its start. Numbers and codes only."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class Counts:
    # By event type.
    received: Counter[str] = field(default_factory=Counter)
    # By code.
    dead: Counter[str] = field(default_factory=Counter)
    alerts: Counter[str] = field(default_factory=Counter)
    runs_created: int = 0
    # Messages and deadlines whose run existed already.
    runs_known: int = 0
    runs_continued: int = 0
    renewed: int = 0
    # Differences by kind, in the last comparison.
    drift: Counter[str] = field(default_factory=Counter)
    compared_at: datetime | None = None
    # The newest time of a tick.
    now: datetime | None = None
