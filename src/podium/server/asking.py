"""Who asks in a request, and the use-case parts that act on their behalf. The tenant comes from the token alone."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers.base import BaseRouteHandler

from podium.access.operations import OperationName
from podium.operations.access import Access
from podium.operations.guarding import acting_for
from podium.operations.parts import Parts
from podium.server.declaring import PUBLIC, SIGNAL, declared_by

# In `scope["state"]`, written by the authentication.
ACCESS: Final = "access"
TENANT: Final = "tenant"
GRANT: Final = "grant"
LIMITER: Final = "limiter"
REQUEST_ID: Final = "request_id"
# The route that answers, as it was written: written by the guard.
ROUTE: Final = "route"


class Caller:
    """Of one request."""

    def __init__(self, base: Parts, access: Access, tenant_id: str, request_id: str) -> None:
        self.tenant_id = tenant_id
        self.request_id = request_id
        self.parts = acting_for(base, access, _say_nothing)


# How handlers name their dependency.
Asking: TypeAlias = NamedDependency[Caller]


class Server:
    """For handlers that no one is known to: `parts` are the server's own."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


Serving: TypeAlias = NamedDependency[Server]


def _say_nothing(_text: str) -> None:
    """What a terminal would show beside the answer is not for callers of another machine."""


def caller_of(base: Parts, connection: "ASGIConnection[Any, Any, Any, Any]") -> Caller:
    state = connection.scope["state"]
    return Caller(base, state[ACCESS], state[TENANT], state[REQUEST_ID])


def provide_caller(base: Parts) -> "Callable[[Request[Any, Any, Any]], Caller]":
    def provide(request: Request[Any, Any, Any]) -> Caller:
        return caller_of(base, request)

    return provide


class Guard:
    """Default deny: what a handler declares is decided before it is called, also if its use case asks again."""

    def __init__(self, base: Parts) -> None:
        self._base = base

    async def __call__(
        self, connection: "ASGIConnection[Any, Any, Any, Any]", handler: BaseRouteHandler
    ) -> None:
        declared = declared_by(handler)
        if declared is None:
            raise RuntimeError(f"{handler} declares no operation")
        state = connection.scope["state"]
        state[ROUTE] = connection.scope["path_template"]
        if declared.operation == PUBLIC:
            return
        state[LIMITER].check(state[GRANT], declared.cost)
        if declared.operation == SIGNAL:
            return
        caller = caller_of(self._base, connection)
        operation = cast("OperationName", declared.operation)
        await caller.parts.require(operation, caller.tenant_id, records=False)
