"""Catalogs in memory, for tests and experiments: they disappear with the process."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from podium.ports.catalog import (
    DueNode,
    Projection,
    Registration,
    Renewal,
    RevisionConflict,
    Service,
    TableChange,
    TableSummary,
    checked_service,
)


class MemoryServices:
    """A `ServiceCatalog`."""

    def __init__(self) -> None:
        self._services: dict[UUID, Service] = {}

    async def register(self, service: Service) -> None:
        self._services[service.node_id] = checked_service(service)

    async def deregister(self, node_id: UUID) -> None:
        self._services.pop(node_id, None)

    async def services(self) -> AsyncIterator[Sequence[Service]]:
        yield [self._services[node_id] for node_id in sorted(self._services)]

    async def close(self) -> None:
        pass


class MemoryTable:
    """A `RegistrationTable`."""

    def __init__(self) -> None:
        self._projections: dict[UUID, Projection] = {}
        self._registrations: dict[UUID, Registration] = {}
        # The last change of each node.
        self._changes: dict[UUID, str] = {}

    async def read(self, node_id: UUID) -> Projection | None:
        return self._projections.get(node_id)

    async def write(self, change: TableChange) -> Projection:
        node_id = change.projection.node_id
        stored = self._projections.get(node_id)
        if stored is not None and self._changes[node_id] == change.change_id:
            return stored
        revision = stored.revision if stored is not None else 0
        if not self._may_change(node_id, revision, change):
            raise RevisionConflict("the projection has changed since it was read; read it again")
        written = _changed(
            change.projection,
            revision=revision + 1,
            liveness_deadline=_liveness(stored, change.projection),
            heartbeat_at=_heartbeat(stored, change.projection),
        )
        self._projections[node_id] = written
        self._changes[node_id] = change.change_id
        if change.registration is not None:
            self._register(node_id, change.registration)
        return written

    def _register(self, node_id: UUID, registration: Registration) -> None:
        if registration.status == "registered":
            self._registrations[node_id] = registration
        elif (known := self._registrations.get(node_id)) is not None:
            self._registrations[node_id] = known.model_copy(update={"status": "retired"})

    def _may_change(self, node_id: UUID, revision: int, change: TableChange) -> bool:
        if revision == change.expected_revision:
            return True
        is_own = self._changes.get(node_id) == change.may_follow
        return is_own and revision == change.expected_revision + 1

    async def unsettle(self, node_id: UUID, retry_at: datetime) -> None:
        if (stored := self._projections.get(node_id)) is None:
            return
        self._projections[node_id] = _changed(
            stored,
            revision=stored.revision + 1,
            consul_applied=False,
            postgres_applied=False,
            retry_at=retry_at,
        )
        self._changes[node_id] = ""

    async def due(self, now: datetime, limit: int, after: DueNode | None = None) -> list[DueNode]:
        found = [
            DueNode(node_id=one.node_id, deadline=one.due_at)
            for one in self._projections.values()
            if one.due_at is not None and one.due_at <= now
        ]
        following = [one for one in found if after is None or _place(one) > _place(after)]
        return sorted(following, key=_place)[:limit]

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        return len({one.node_id for one in renewals if self._renew(one)})

    def _renew(self, renewal: Renewal) -> bool:
        stored = self._projections.get(renewal.node_id)
        if stored is None or stored.liveness_deadline is None:
            return False
        if renewal.epoch < (stored.node.epoch or 0) or renewal.deadline <= stored.liveness_deadline:
            return False
        if stored.heartbeat_at is not None and renewal.timestamp <= stored.heartbeat_at:
            return False
        self._projections[renewal.node_id] = _changed(
            stored, liveness_deadline=renewal.deadline, heartbeat_at=renewal.timestamp
        )
        return True

    async def summary(self) -> TableSummary:
        rows = self._projections.values()
        deadlines = [one.due_at for one in rows if one.due_at is not None]
        return TableSummary(
            states=dict(Counter(one.state for one in rows)), oldest_deadline=min(deadlines, default=None)
        )

    async def registrations(self, after: UUID | None, limit: int) -> list[Registration]:
        return [self._registrations[one] for one in _page(self._registrations, after, limit)]

    async def projections(self, after: UUID | None, limit: int) -> list[Projection]:
        return [self._projections[one] for one in _page(self._projections, after, limit)]

    async def close(self) -> None:
        pass


def _place(due: DueNode) -> tuple[datetime, UUID]:
    return due.deadline, due.node_id


def _changed(projection: Projection, **values: Any) -> Projection:
    return projection.model_copy(update=values)


def _liveness(stored: Projection | None, new: Projection) -> datetime | None:
    deadlines = (stored.liveness_deadline if stored is not None else None, new.liveness_deadline)
    return new.liveness_deadline if None in deadlines else max(one for one in deadlines if one is not None)


def _heartbeat(stored: Projection | None, new: Projection) -> datetime | None:
    if stored is None or stored.liveness_deadline is None or new.liveness_deadline is None:
        return new.heartbeat_at
    return max((one for one in (stored.heartbeat_at, new.heartbeat_at) if one is not None), default=None)


def _page(rows: dict[UUID, Any], after: UUID | None, limit: int) -> list[UUID]:
    return [node_id for node_id in sorted(rows) if after is None or node_id > after][:limit]
