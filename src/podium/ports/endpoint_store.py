"""Hooks and webhooks in a store, and which deliveries hooks have accepted."""

from typing import TYPE_CHECKING, Protocol

from podium.log.times import Timestamp

if TYPE_CHECKING:
    # Imported with the first hook.
    from podium.hooks.endpoint import Endpoint, EndpointKind
    from podium.ports.schedule_changes import PreparedRun
    from podium.ports.store import CreatedRun


class Endpoints(Protocol):
    async def add_endpoint(self, endpoint: "Endpoint") -> bool:
        """False, without any change, if an endpoint of its kind has this name, in any tenant."""
        ...

    async def find_endpoint(self, kind: "EndpointKind", name: str) -> "Endpoint | None":
        """Searches all tenants: the caller must not show it to another one."""
        ...

    async def list_endpoints(self, kind: "EndpointKind", tenant_id: str) -> "list[Endpoint]":
        """The endpoints of a tenant, by name."""
        ...

    async def replace_endpoint(self, before: "Endpoint", after: "Endpoint") -> bool:
        """Replace its body; False, without any change, if the stored one is no longer `before`."""
        ...

    async def remove_endpoint(self, kind: "EndpointKind", tenant_id: str, name: str) -> bool:
        """Also removes a hook's record of deliveries. False if the tenant has no endpoint of this name."""
        ...

    async def has_delivery(self, hook: str, delivery_id: str) -> bool:
        """Whether the hook has accepted this delivery and still remembers it."""
        ...

    async def accept_delivery(
        self, hook: str, delivery_id: str, at: Timestamp, run: "PreparedRun", *, forget_before: Timestamp
    ) -> "CreatedRun | None":
        """Record a delivery and create its run, both or neither; None if this delivery was accepted before.

        Deliveries that were accepted before `forget_before` are deleted: nothing that old is accepted. Raises
        what `create_run` raises.
        """
        ...
