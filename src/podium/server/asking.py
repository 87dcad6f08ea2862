"""The caller of a request, and the parts with the caller's permissions. The tenant is determined by the token
alone.
"""

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

# Keys in `scope["state"]`, set by the authentication.
ACCESS: Final = "access"
TENANT: Final = "tenant"
GRANT: Final = "grant"
LIMITER: Final = "limiter"
REQUEST_ID: Final = "request_id"
# The route pattern that matched; set by the guard.
ROUTE: Final = "route"
# The run in the path, or the one that was started: for the log, if the request succeeds.
RUN: Final = "run"


class Caller:
    """The caller of one request."""

    def __init__(self, base: Parts, access: Access, tenant_id: str, request_id: str) -> None:
        self.tenant_id = tenant_id
        self.request_id = request_id
        self.parts = acting_for(base, access, _say_nothing)


# The name by which handlers request it.
Asking: TypeAlias = NamedDependency[Caller]


class Server:
    """For handlers that answer unknown callers: `parts` are the server's own."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


Serving: TypeAlias = NamedDependency[Server]


def _say_nothing(_text: str) -> None:
    """What a terminal would show besides the answer is not for callers on other machines."""


def caller_of(base: Parts, connection: "ASGIConnection[Any, Any, Any, Any]") -> Caller:
    state = connection.scope["state"]
    return Caller(base, state[ACCESS], state[TENANT], state[REQUEST_ID])


def provide_caller(base: Parts) -> "Callable[[Request[Any, Any, Any]], Caller]":
    def provide(request: Request[Any, Any, Any]) -> Caller:
        return caller_of(base, request)

    return provide


class Guard:
    """Default deny: a handler's declaration is checked before it is called, even if its use case checks
    again.
    """

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
        state[RUN] = connection.scope["path_params"].get("run_id")
        if declared.operation == PUBLIC:
            return
        state[LIMITER].check(state[GRANT], declared.cost)
        if declared.operation == SIGNAL:
            return
        caller = caller_of(self._base, connection)
        operation = cast("OperationName", declared.operation)
        await caller.parts.require(operation, caller.tenant_id, records=False)
