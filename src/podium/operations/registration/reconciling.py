"""Both catalogs compared with the projection, page by page; differences are repaired and counted.

All three are read in the order of node ids, so that only a page of each is in memory. A run may change a node
during the comparison, or may have changed one side of it only. So an apparent difference is checked again:
its projection first, then the catalogs, then whether a run is open, and whether the projection is still the
same. In Consul it is repaired directly. A row of the table is repaired by the next run of the node, which is
requested here.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from podium.nodes.registration.drift import Drift, consul_drift, expected_service, table_drift
from podium.ports.catalog import Projection, Registration, RegistrationTable, Service, ServiceCatalog

PAGE: Final = 500
# Maximum number of node ids in a report.
MAX_LISTED: Final = 20
_T = TypeVar("_T")
# Whether a run is open that may change this node.
HasRun = Callable[[UUID], Awaitable[bool]]


class DriftReport(msgspec.Struct, frozen=True, rename="camel"):
    compared: int
    kinds: dict[str, int]
    # The first nodes that differ.
    nodes: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


class _Sides(NamedTuple):
    """What is known of one node."""

    row: Projection | None
    registration: Registration | None
    service: Service | None

    def drifts(self) -> list[Drift]:
        found = (consul_drift(self.row, self.service), table_drift(self.row, self.registration))
        return [one for one in found if one is not None]


async def reconcile(
    services: ServiceCatalog, table: RegistrationTable, now: datetime, has_run: HasRun
) -> DriftReport:
    """Raises `CatalogUnavailable`, `CatalogRefused`, and what `has_run` raises."""
    compared, suspects = 0, []
    async for node_id, sides in _joined(services, table):
        compared += 1
        if sides.drifts():
            suspects.append(node_id)
    return await _repair_confirmed(services, table, now, has_run, compared, suspects)


async def _repair_confirmed(
    services: ServiceCatalog,
    table: RegistrationTable,
    now: datetime,
    has_run: HasRun,
    compared: int,
    suspects: list[UUID],
) -> DriftReport:
    kinds: Counter[str] = Counter()
    nodes = []
    rows = {node_id: await table.read(node_id) for node_id in suspects}
    found = await _services_of(services, rows) if rows else {}
    for node_id, row in rows.items():
        sides = _Sides(row, await _registration(table, node_id), found.get(node_id))
        drifts = sides.drifts()
        if not drifts or await has_run(node_id):
            continue
        # In this order: a run that has ended since then has changed the projection.
        if _revision(await table.read(node_id)) == _revision(row):
            for drift in drifts:
                await _repair(services, table, node_id, row, drift, now)
            kinds.update(one.value for one in drifts)
            nodes.append(str(node_id))
    return DriftReport(compared, dict(kinds), tuple(nodes[:MAX_LISTED]))


async def _repair(
    services: ServiceCatalog,
    table: RegistrationTable,
    node_id: UUID,
    row: Projection | None,
    drift: Drift,
    now: datetime,
) -> None:
    match drift:
        case Drift.CONSUL_MISSING | Drift.CONSUL_DIFFERS:
            expected = expected_service(row) if row is not None else None
            if expected is not None:
                await services.register(expected)
        case Drift.CONSUL_EXTRA | Drift.CONSUL_UNKNOWN:
            await services.deregister(node_id)
        case Drift.TABLE_MISSING | Drift.TABLE_DIFFERS:
            await table.unsettle(node_id, now)
        case Drift.TABLE_UNKNOWN:
            pass  # Podium never writes such a row: it is only reported.


# --- reading in the order of node ids ---------------------------------------------------------------


class _Stream(Generic[_T]):
    """Rows in the order of their ids, with one row of lookahead."""

    def __init__(self, rows: AsyncIterator[_T], id_of: Callable[[_T], UUID]) -> None:
        self._rows = rows
        self._id_of = id_of
        self._next: _T | None = None

    async def start(self) -> None:
        self._next = await anext(self._rows, None)

    @property
    def node_id(self) -> UUID | None:
        return self._id_of(self._next) if self._next is not None else None

    async def take(self, node_id: UUID) -> _T | None:
        """The row of this node, if it is the next one."""
        if self.node_id != node_id:
            return None
        taken, self._next = self._next, await anext(self._rows, None)
        return taken


async def _joined(services: ServiceCatalog, table: RegistrationTable) -> AsyncIterator[tuple[UUID, _Sides]]:
    rows = _Stream(_projections(table), lambda one: one.node_id)
    registrations = _Stream(_registrations(table), lambda one: one.node.node_id)
    found = _Stream(_services(services), lambda one: one.node_id)
    streams: list[_Stream[Any]] = [rows, registrations, found]
    for stream in streams:
        await stream.start()
    while ids := [one.node_id for one in streams if one.node_id is not None]:
        node_id = min(ids)
        sides = await rows.take(node_id), await registrations.take(node_id), await found.take(node_id)
        yield node_id, _Sides(*sides)


async def _projections(table: RegistrationTable) -> AsyncIterator[Projection]:
    after = None
    while page := await table.projections(after, PAGE):
        for row in page:
            yield row
        after = page[-1].node_id


async def _registrations(table: RegistrationTable) -> AsyncIterator[Registration]:
    after = None
    while page := await table.registrations(after, PAGE):
        for row in page:
            yield row
        after = page[-1].node.node_id


async def _services(services: ServiceCatalog) -> AsyncIterator[Service]:
    async for page in services.services():
        for one in page:
            yield one


async def _services_of(services: ServiceCatalog, wanted: Collection[UUID]) -> dict[UUID, Service]:
    return {one.node_id: one async for one in _services(services) if one.node_id in wanted}


async def _registration(table: RegistrationTable, node_id: UUID) -> Registration | None:
    before = UUID(int=node_id.int - 1) if node_id.int else None
    found = await table.registrations(before, 1)
    return found[0] if found and found[0].node.node_id == node_id else None


def _revision(row: Projection | None) -> int:
    return row.revision if row is not None else 0
