"""The registration table in PostgreSQL: both parts in one schema, which may be in another database than the
log.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pydantic_core import PydanticSerializationError

from podium.catalogs.postgres import migrations, statements
from podium.catalogs.postgres.connections import Connections, without_causes
from podium.patterns import lazy_pattern
from podium.ports.catalog import (
    CatalogRefused,
    DueNode,
    NodeDescription,
    Projection,
    Registration,
    Renewal,
    RevisionConflict,
    TableChange,
    TableSummary,
)
from podium.text import shortened

DEFAULT_SCHEMA: Final = "podium_registration"
_SCHEMA: Final = lazy_pattern(r"[a-z_][a-z0-9_]{0,39}")
_PROJECTION: Final = (
    *("node", "state", "revision", "consul_applied", "postgres_applied", "seen_at", "applied_at"),
    *("ack_deadline", "liveness_deadline", "retry_at", "heartbeat_at"),
)
_TIMES: Final = ("seen_at", "applied_at", "ack_deadline", "liveness_deadline", "retry_at", "heartbeat_at")
_NODE: Final = (
    *("node_type", "node_version", "capabilities", "endpoints", "node_role", "metadata", "correlation_id"),
    *("network_id", "deployment_id", "epoch", "timestamp"),
)
_JSON: Final = ("capabilities", "endpoints", "metadata")


def check_schema(name: str) -> None:
    """Raises ValueError."""
    if not _SCHEMA.fullmatch(name):
        raise ValueError("the name of a schema has at most 40 lower-case letters, digits and _")


class PostgresTable:
    """A `RegistrationTable`, opened by `await PostgresTable.open(conninfo)`. Belongs to one event loop."""

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        connections: int = 8,
        budget: timedelta = timedelta(seconds=3),
    ) -> None:
        """For existing tables. `budget`: how long a call may take until it is `CatalogUnavailable`.

        Raises ValueError; its text may quote the address.
        """
        check_schema(schema)
        self._connections = Connections(
            conninfo, schema=schema, most=connections, budget=budget.total_seconds()
        )

    @classmethod
    async def open(
        cls, conninfo: str, *, owner: str | None = None, may_claim: bool = True, **options: Any
    ) -> "PostgresTable":
        """Connect, and create or migrate the tables. Also raises ValueError and `CatalogVersion`.

        `owner`: the installation whose nodes these are; tables of another one are refused. `may_claim`: it
        becomes the owner of tables that have none.
        """
        table = cls(conninfo, **options)
        try:
            with without_causes():
                await migrations.migrate(table._connections)
            if owner is not None:
                await table._check_owner(owner, may_claim=may_claim)
        except BaseException:
            await table.close()
            raise
        return table

    async def _check_owner(self, owner: str, *, may_claim: bool) -> None:
        rows = await self._rows(statements.OWNER, [])
        if not rows and may_claim:
            await self._execute(statements.CLAIM, [owner])
            rows = await self._rows(statements.OWNER, [])
        if rows and rows != [(owner,)]:
            raise CatalogRefused(
                f"schema {self._connections.schema!r} has the nodes of {shortened(rows[0][0])!r}, not those of "
                f"{shortened(owner)!r}; choose another schema"
            )

    async def close(self) -> None:
        await self._connections.close()

    async def read(self, node_id: UUID) -> Projection | None:
        rows = await self._rows(statements.READ, [node_id])
        return _projection(rows[0]) if rows else None

    async def write(self, change: TableChange) -> Projection:
        rows = await self._rows(statements.WRITE, _values(change))
        if not rows:
            rows = await self._rows(statements.READ_CHANGED, [change.projection.node_id, change.change_id])
        if not rows:
            raise RevisionConflict("the projection has changed since it was read; read it again")
        return _projection(rows[0])

    async def unsettle(self, node_id: UUID, retry_at: datetime) -> None:
        await self._execute(statements.UNSETTLE, [retry_at, node_id])

    async def due(self, now: datetime, limit: int, after: DueNode | None = None) -> list[DueNode]:
        if after is None:
            rows = await self._rows(statements.DUE, [now, limit])
        else:
            rows = await self._rows(statements.DUE_AFTER, [now, after.deadline, after.node_id, limit])
        return [DueNode(node_id=node_id, deadline=deadline) for node_id, deadline in rows]

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        if not renewals:
            return 0
        ids = [one.node_id for one in renewals]
        times = [one.timestamp for one in renewals], [one.deadline for one in renewals]
        return await self._execute(statements.RENEW, [ids, [one.epoch for one in renewals], *times, ids])

    async def summary(self) -> TableSummary:
        rows = await self._rows(statements.SUMMARY, [])
        deadlines = [deadline for _, _, deadline in rows if deadline is not None]
        return TableSummary(
            states={state: count for state, count, _ in rows}, oldest_deadline=min(deadlines, default=None)
        )

    async def registrations(self, after: UUID | None, limit: int) -> list[Registration]:
        return [
            _registration(row)
            for row in await self._page("node_registrations", statements.REGISTRATION, after, limit)
        ]

    async def projections(self, after: UUID | None, limit: int) -> list[Projection]:
        return [
            _projection(row)
            for row in await self._page("registration_projection", statements.PROJECTION, after, limit)
        ]

    async def _page(self, table: str, columns: str, after: UUID | None, limit: int) -> list[tuple[Any, ...]]:
        statement = statements.page_of(table, columns, is_first=after is None)
        return await self._rows(statement, [limit] if after is None else [after, limit])

    async def _rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with without_causes():
            async with self._connections.lend() as connection:
                done = await connection.execute(statement, values)
                return await done.fetchall()

    async def _execute(self, statement: str, values: Sequence[Any]) -> int:
        """Returns the number of changed rows."""
        with without_causes():
            async with self._connections.lend() as connection:
                return (await connection.execute(statement, values)).rowcount


def _values(change: TableChange) -> dict[str, Any]:
    row, registration = change.projection, change.registration
    node = registration.node if registration is not None else row.node
    try:
        return {
            **{name: getattr(node, name) for name in _NODE},
            **{name: json.dumps(getattr(node, name)) for name in _JSON},
            **{name: getattr(row, name) for name in _TIMES},
            "node": row.node.model_dump_json(),
            "node_id": row.node_id,
            "state": row.state,
            "consul_applied": row.consul_applied,
            "postgres_applied": row.postgres_applied,
            "known_epoch": row.node.epoch or 0,
            "change_id": change.change_id,
            "may_follow": change.may_follow,
            "expected": change.expected_revision,
            "status": registration.status if registration is not None else None,
        }
    except PydanticSerializationError:
        raise CatalogRefused("a registration has a text that is not valid UTF-8") from None


def _projection(row: tuple[Any, ...]) -> Projection:
    values = dict(zip(_PROJECTION, row, strict=True))
    return Projection.model_validate(values | {"node": NodeDescription.model_validate_json(row[0])})


def _registration(row: tuple[Any, ...]) -> Registration:
    node_id, status, *values = row
    node = dict(zip(_NODE, values, strict=True))
    return Registration.model_validate({"node": {"node_id": node_id, **node}, "status": status})
