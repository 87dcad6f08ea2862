"""Which deadlines of a registration have passed. Only `now` decides, never a clock of this process or of a node."""

from datetime import datetime
from typing import Literal, TypeAlias

from podium.ports.catalog import Projection

Deadline: TypeAlias = Literal["ack", "liveness", "retry"]


def passed_deadlines(known: Projection | None, now: datetime) -> tuple[Deadline, ...]:
    if known is None:
        return ()
    deadlines: dict[Deadline, datetime | None] = {
        "ack": known.ack_deadline,
        "liveness": known.liveness_deadline,
        "retry": known.retry_at,
    }
    return tuple(name for name, deadline in deadlines.items() if deadline is not None and deadline <= now)
