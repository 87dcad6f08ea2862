"""Hooks in the store. The statements are in `endpoint_sql.py`, imported with the first hook."""

from typing import TYPE_CHECKING

from podium.log.times import Timestamp
from podium.stores.sqlite.store_base import SqliteBase

if TYPE_CHECKING:
    from podium.hooks.endpoint import Endpoint, EndpointKind
    from podium.ports.schedule_changes import PreparedRun
    from podium.ports.store import CreatedRun


class SqliteEndpoints(SqliteBase):
    async def add_endpoint(self, endpoint: "Endpoint") -> bool:
        from podium.stores.sqlite import endpoint_sql

        return await self._writer.write(endpoint_sql.add(endpoint))

    async def find_endpoint(self, kind: "EndpointKind", name: str) -> "Endpoint | None":
        from podium.stores.sqlite import endpoint_sql

        return self.query(lambda db: endpoint_sql.find(db, kind, name))

    async def list_endpoints(self, kind: "EndpointKind", tenant_id: str) -> "list[Endpoint]":
        from podium.stores.sqlite import endpoint_sql

        return self.query(lambda db: endpoint_sql.of_tenant(db, kind, tenant_id))

    async def replace_endpoint(self, before: "Endpoint", after: "Endpoint") -> bool:
        from podium.stores.sqlite import endpoint_sql

        return await self._writer.write(lambda db: endpoint_sql.replace(db, before, after))

    async def remove_endpoint(self, kind: "EndpointKind", tenant_id: str, name: str) -> bool:
        from podium.stores.sqlite import endpoint_sql

        return await self._writer.write(lambda db: endpoint_sql.remove(db, kind, tenant_id, name))

    async def has_delivery(self, hook: str, delivery_id: str) -> bool:
        from podium.stores.sqlite import endpoint_sql

        return self.query(lambda db: endpoint_sql.has_delivery(db, hook, delivery_id))

    async def accept_delivery(
        self, hook: str, delivery_id: str, at: Timestamp, run: "PreparedRun", *, forget_before: Timestamp
    ) -> "CreatedRun | None":
        from podium.stores.sqlite import endpoint_sql

        accept = endpoint_sql.accept(hook, delivery_id, at, run, forget_before)
        return await self._writer.write(
            lambda db: accept(db, self._writer.moment), touches=run.new.identity.run_id
        )
