"""Declarations of handlers in `opt`: the required operation, the cost of the request, and its errors.

There is no separate table of routes. The guard, the rate limits, the OpenAPI document and the matrix of the
tests all read these declarations; an application with a handler without one does not start.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from podium.access.operations import NAMED, OperationName

Cost: TypeAlias = Literal["read", "list", "write", "heavy"]
# The required permission depends on the signal: see `access.operations.SIGNALS`.
SIGNAL: Final = "signal"
# Answers unknown callers: only `/healthz` and what replaces a token (`/login`, the signature of a hook).
PUBLIC: Final = "public"
_COSTS: Final = get_args(Cost)


class Declared(NamedTuple):
    """The declaration of one handler. `operation`: a name of `access.operations`, `signal` or `public`."""

    operation: str
    cost: Cost
    errors: tuple[str, ...]
    # `Accept: text/plain` returns the output of the CLI.
    has_text: bool = False
    # Further success statuses with the same body.
    also: tuple[int, ...] = ()


def declares(
    operation: OperationName | Literal["signal", "public"],
    cost: Cost,
    *errors: str,
    text: bool = False,
    also: tuple[int, ...] = (),
) -> dict[str, Any]:
    """For `opt=`. `errors`: codes that this handler can return, besides those of every request."""
    return {"declared": Declared(operation, cost, errors, text, also)}


def declared_by(handler: Any) -> Declared | None:
    return cast("Declared | None", handler.opt.get("declared"))


def handlers_of(app: Litestar) -> Iterable[tuple[str, str, HTTPRouteHandler]]:
    """Path, method and handler of every route of our own."""
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for method, (handler, _) in sorted(route.route_handler_map.items()):
                if method != "OPTIONS":
                    yield route.path_format, method, handler


def require_declarations(app: Litestar) -> None:
    """Raises `RuntimeError`: a handler without a declaration would answer everyone."""
    for path, method, handler in handlers_of(app):
        found = declared_by(handler)
        if found is None:
            raise RuntimeError(f"{method} {path} declares no operation: add opt=declares(...) to its handler")
        if found.operation not in (SIGNAL, PUBLIC, *NAMED) or found.cost not in _COSTS:
            raise RuntimeError(f"{method} {path} declares the unknown operation {found.operation!r}")
