"""Hooks of the store in memory."""

from podium.hooks.endpoint import Endpoint, EndpointKind
from podium.log.times import Timestamp
from podium.ports.clock import Clock
from podium.ports.schedule_changes import PreparedRun
from podium.ports.store import CreatedRun
from podium.stores import texts
from podium.stores.memory.log import MemoryLog


class MemoryEndpoints(MemoryLog):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._endpoints: dict[tuple[EndpointKind, str], Endpoint] = {}
        self._deliveries: dict[tuple[str, str], Timestamp] = {}

    async def add_endpoint(self, endpoint: Endpoint) -> bool:
        texts.check_endpoint(endpoint)
        if (endpoint.kind, endpoint.name) in self._endpoints:
            return False
        self._endpoints[endpoint.kind, endpoint.name] = endpoint
        return True

    async def find_endpoint(self, kind: EndpointKind, name: str) -> Endpoint | None:
        return self._endpoints.get((kind, name))

    async def list_endpoints(self, kind: EndpointKind, tenant_id: str) -> list[Endpoint]:
        found = [one for one in self._endpoints.values() if (one.kind, one.tenant_id) == (kind, tenant_id)]
        return sorted(found, key=lambda one: one.name)

    async def replace_endpoint(self, before: Endpoint, after: Endpoint) -> bool:
        key = before.kind, before.name
        if self._endpoints.get(key) != before:
            return False
        self._endpoints[key] = after
        return True

    async def remove_endpoint(self, kind: EndpointKind, tenant_id: str, name: str) -> bool:
        kept = self._endpoints.get((kind, name))
        if kept is None or kept.tenant_id != tenant_id:
            return False
        del self._endpoints[kind, name]
        if kind is EndpointKind.HOOK:
            self._deliveries = {key: at for key, at in self._deliveries.items() if key[0] != name}
        return True

    async def has_delivery(self, hook: str, delivery_id: str) -> bool:
        return (hook, delivery_id) in self._deliveries

    async def accept_delivery(
        self, hook: str, delivery_id: str, at: Timestamp, run: PreparedRun, *, forget_before: Timestamp
    ) -> CreatedRun | None:
        texts.check_delivery(hook, delivery_id)
        if (hook, delivery_id) in self._deliveries:
            return None
        created = await self.create_run(run.new, run.writes, run.contents, audit=run.audit)
        self._deliveries = {key: then for key, then in self._deliveries.items() if then >= forget_before}
        self._deliveries[hook, delivery_id] = at
        return created
