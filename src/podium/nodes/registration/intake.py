"""The effect of an incoming message: a run, a renewal of liveness, or a new time. Pure; the caller executes
it.

Heartbeats create no runs: each batch of them is one statement. A tick creates one run for each node whose
deadline has passed. The id of a run request is derived from its event, so that a repeated message does not
create a second run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from podium.nodes.registration.models.model_orchestrator_config import TimeInjection
from podium.nodes.registration.models.model_orchestrator_input import NodeOverdue, RegistrationEvent
from podium.nodes.registration.ordering import epoch_of
from podium.ports.catalog import DueNode, Renewal

TICK_REFUSED: Final = "TICK_REFUSED"
# How far a tick may be ahead of the time at which the broker received it.
MAX_AHEAD: Final = timedelta(seconds=30)
_MAX_DOUBLINGS: Final = 6
# Must never change: the correlation ids of overdue runs are derived from it.
_OVERDUE: Final = UUID("2b1f6c64-6a0e-5c0f-8f9d-0c7b3d1a5e42")


class NodeHeartbeatEvent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: UUID
    epoch: int | None = Field(default=None, ge=0, lt=2**63)
    timestamp: AwareDatetime


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run that is to be created. The key makes runs of one node wait for each other."""

    request_id: str
    concurrency_key: str
    event: dict[str, Any]
    # The trace that it continues.
    traceparent: str | None = None


def run_for(event_type: str, body: RegistrationEvent) -> RunStart:
    mark = body.deadline.isoformat() if isinstance(body, NodeOverdue) else str(body.correlation_id)
    event = {
        "type": event_type,
        "correlation_id": str(body.correlation_id),
        "body": body.model_dump(mode="json"),
    }
    return RunStart(f"{event_type}:{body.node_id}:{mark}", str(body.node_id), event)


def overdue_run(due: DueNode, now: datetime, time: TimeInjection) -> RunStart:
    """Every tick that finds the deadline requests the same run. If the deadline persists, it is requested
    again later.
    """
    number = overdue_attempt(now - due.deadline, time.retry)
    mark = f":{number}" if number else ""
    correlation_id = uuid5(_OVERDUE, f"{due.node_id}/{due.deadline.isoformat()}{mark}")
    body = NodeOverdue(node_id=due.node_id, correlation_id=correlation_id, now=now, deadline=due.deadline)
    start = run_for(time.source_event, body)
    return replace(start, request_id=f"{start.request_id}{mark}")


def overdue_attempt(late: timedelta, retry: timedelta) -> int:
    """With doubling delays, at most 64 times `retry`: with 5 s, 0 up to 5 s, 1 up to 15 s, 2 up to 35 s."""
    times = max(0, late // retry)
    doublings = min((times + 1).bit_length() - 1, _MAX_DOUBLINGS)
    return doublings + (times + 1 - (1 << doublings)) // (1 << doublings)


def renewals(
    heartbeats: Iterable[NodeHeartbeatEvent], now: datetime, time: TimeInjection, max_batch: int
) -> list[tuple[Renewal, ...]]:
    """Batches for one statement each. Only the newest heartbeat of each node is used, and its deadline is
    based on `now`.
    """
    newest: dict[UUID, NodeHeartbeatEvent] = {}
    for one in heartbeats:
        known = newest.get(one.node_id)
        if known is None or _age(one) > _age(known):
            newest[one.node_id] = one
    listed = [
        Renewal(
            node_id=one.node_id,
            epoch=epoch_of(one.epoch),
            timestamp=one.timestamp,
            deadline=now + time.liveness,
        )
        for one in newest.values()
    ]
    return [tuple(part) for part in _parts(listed, max_batch)]


def next_time(
    known: datetime | None, tick: datetime, received_at: datetime
) -> tuple[datetime | None, str | None]:
    """The time after a tick, and why the tick is refused. Time is never set back: an older tick changes
    nothing.

    `received_at`: when the broker received it. One wrong clock must not expire all nodes.
    """
    if tick > received_at + MAX_AHEAD:
        return known, TICK_REFUSED
    return (tick if known is None or tick > known else known), None


def _age(heartbeat: NodeHeartbeatEvent) -> tuple[int, datetime]:
    return epoch_of(heartbeat.epoch), heartbeat.timestamp


def _parts(listed: Sequence[Renewal], size: int) -> Iterable[Sequence[Renewal]]:
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
