"""Hooks in SQL."""

from typing import Any, Final

from psycopg import Rollback

from podium.hooks.endpoint import Endpoint, EndpointKind
from podium.log.times import Timestamp
from podium.ports.schedule_changes import PreparedRun
from podium.ports.store import CreatedRun
from podium.stores import texts
from podium.stores.postgres import log
from podium.stores.postgres.connections import Connections

_COLUMNS: Final = "kind, name, tenant_id, body"
_INSERT: Final = (
    f"INSERT INTO endpoints ({_COLUMNS}) VALUES (%s, %s, %s, %b) ON CONFLICT DO NOTHING RETURNING name"
)
_REMOVE: Final = "DELETE FROM endpoints WHERE kind = %s AND name = %s AND tenant_id = %s RETURNING name"
_REPLACE: Final = (
    "UPDATE endpoints SET body = %b WHERE (kind, name, tenant_id) = (%s, %s, %s) AND body = %b RETURNING name"
)
_FIND: Final = f"SELECT {_COLUMNS} FROM endpoints WHERE kind = %s AND name = %s"
_LIST: Final = f"SELECT {_COLUMNS} FROM endpoints WHERE kind = %s AND tenant_id = %s ORDER BY name"
_ACCEPTED: Final = "SELECT at FROM deliveries WHERE hook = %s AND delivery_id = %s"
# A concurrent duplicate waits here until the first one is stored, and then finds it.
_ACCEPT: Final = (
    "INSERT INTO deliveries (hook, delivery_id, at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING at"
)


class PostgresEndpoints:
    """The part of `PostgresStore` for hooks."""

    _connections: Connections

    async def add_endpoint(self, endpoint: Endpoint) -> bool:
        texts.check_endpoint(endpoint)
        row = [endpoint.kind.value, endpoint.name, endpoint.tenant_id, endpoint.body]
        async with self._connections.writing() as connection:
            return await (await connection.execute(_INSERT.encode(), row)).fetchone() is not None

    async def replace_endpoint(self, before: Endpoint, after: Endpoint) -> bool:
        row = [after.body, before.kind.value, before.name, before.tenant_id, before.body]
        async with self._connections.writing() as connection:
            return await (await connection.execute(_REPLACE.encode(), row)).fetchone() is not None

    async def remove_endpoint(self, kind: EndpointKind, tenant_id: str, name: str) -> bool:
        if not texts.could_be_kept(tenant_id, name):
            return False
        async with self._connections.writing() as connection:
            removed = await connection.execute(_REMOVE.encode(), [kind.value, name, tenant_id])
            is_removed = await removed.fetchone() is not None
            if is_removed and kind is EndpointKind.HOOK:
                await connection.execute("DELETE FROM deliveries WHERE hook = %s", [name])
        return is_removed

    async def find_endpoint(self, kind: EndpointKind, name: str) -> Endpoint | None:
        if not texts.could_be_kept(name):
            return None
        found = await self._read(_FIND, [kind.value, name])
        return found[0] if found else None

    async def list_endpoints(self, kind: EndpointKind, tenant_id: str) -> list[Endpoint]:
        if not texts.could_be_kept(tenant_id):
            return []
        return await self._read(_LIST, [kind.value, tenant_id])

    async def has_delivery(self, hook: str, delivery_id: str) -> bool:
        if not texts.could_be_kept(hook, delivery_id):
            return False
        async with self._connections.lend() as connection:
            found = await connection.execute(_ACCEPTED, [hook, delivery_id])
            return await found.fetchone() is not None

    async def accept_delivery(
        self, hook: str, delivery_id: str, at: Timestamp, run: PreparedRun, *, forget_before: Timestamp
    ) -> CreatedRun | None:
        texts.check_delivery(hook, delivery_id)
        contents = log.checked_run(run.new, run.writes, run.contents, run.audit)
        connections, created = self._connections, None
        async with connections.writing(connections.key("run", run.new.identity.run_id)) as connection:
            accepted = await connection.execute(_ACCEPT, [hook, delivery_id, at])
            if await accepted.fetchone() is None:
                raise Rollback
            created = await log.create_in(connections, connection, run.new, run.writes, contents, run.audit)
            await connection.execute("DELETE FROM deliveries WHERE at < %s", [forget_before])
        return created

    async def _read(self, query: str, asked: list[Any]) -> list[Endpoint]:
        async with self._connections.lend() as connection:
            found = await connection.execute(query.encode(), asked, binary=True)
            return [
                Endpoint(kind=EndpointKind(kind), name=name, tenant_id=tenant, body=body)
                for kind, name, tenant, body in await found.fetchall()
            ]
