"""Hooks in a store, and which deliveries were accepted."""

from typing import TYPE_CHECKING, Protocol

from podium.log.times import Timestamp

if TYPE_CHECKING:
    # Loaded with the first hook.
    from podium.hooks.endpoint import Endpoint, EndpointKind
    from podium.ports.schedule_changes import PreparedRun
    from podium.ports.store import CreatedRun


class Endpoints(Protocol):
    async def add_endpoint(self, endpoint: "Endpoint") -> bool:
        """False, and nothing has changed, if one of its kind has this name, in whichever tenant."""
        ...

    async def find_endpoint(self, kind: "EndpointKind", name: str) -> "Endpoint | None":
        """In whichever tenant: the caller shows it to no other one."""
        ...

    async def list_endpoints(self, kind: "EndpointKind", tenant_id: str) -> "list[Endpoint]":
        """Of a tenant, by name."""
        ...

    async def remove_endpoint(self, kind: "EndpointKind", tenant_id: str, name: str) -> bool:
        """With the record of its deliveries. False if the tenant has none of this name."""
        ...

    async def accept_delivery(
        self, hook: str, delivery_id: str, at: Timestamp, run: "PreparedRun", *, forget_before: Timestamp
    ) -> "CreatedRun | None":
        """Record a delivery and create its run, both or neither; None if this delivery was accepted before.

        Deliveries that were accepted before `forget_before` are forgotten: nothing so old is accepted. Raises what
        `create_run` does.
        """
        ...
