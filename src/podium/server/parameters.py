"""Parameters that could be misread are refused: a query parameter that a route does not have, because a filter
that is misspelled would select everything, and one of two values where a route reads one.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler
from litestar.routes import HTTPRoute

from podium.server.declaring import PUBLIC, declared_by
from podium.server.problems import BadRequest
from podium.text import shortened, visible

if TYPE_CHECKING:
    from litestar.types import HTTPScope

_MAX_NAME: Final = 60
_ONCE: Final = "one value"


class _Known(NamedTuple):
    queries: frozenset[str]
    # Of these, the ones that may be repeated.
    lists: frozenset[str]
    headers: frozenset[str]


class KnownParameters:
    """A guard of all routes. `learn` takes the names from the signatures of the handlers."""

    def __init__(self) -> None:
        # By path and method of the route.
        self._known: dict[tuple[str, str], _Known] = {}

    def learn(self, app: Litestar) -> None:
        for route in app.routes:
            if isinstance(route, HTTPRoute):
                for method, (_, model) in route.route_handler_map.items():
                    queries = model.expected_query_params
                    self._known[route.path_format, method] = _Known(
                        queries=frozenset(one.field_alias for one in queries),
                        lists=frozenset(one.field_alias for one in queries if one.is_sequence),
                        headers=frozenset(one.field_alias for one in model.expected_header_params),
                    )

    async def __call__(
        self, connection: "ASGIConnection[Any, Any, Any, Any]", handler: BaseRouteHandler
    ) -> None:
        declared = declared_by(handler)
        # An identity provider and the sender of a hook may add parameters of their own.
        if declared is None or declared.operation == PUBLIC:
            return
        scope = cast("HTTPScope", connection.scope)
        known = self._known[scope["path_template"], scope["method"]]
        for name, values in connection.query_params.dict().items():
            shown = shortened(visible(name), _MAX_NAME)
            if name not in known.queries:
                valid = (
                    f"parameters: {', '.join(sorted(known.queries))}" if known.queries else "no parameters"
                )
                raise BadRequest(f"unknown query parameter {shown!r}", f"query.{shown}", valid)
            if len(values) > 1 and name not in known.lists:
                raise BadRequest(f"query parameter {shown!r} is there twice", f"query.{shown}", _ONCE)
        for name in known.headers:
            if len(connection.headers.getall(name, [])) > 1:
                raise BadRequest(f"header {name!r} is there twice", f"header {name}", _ONCE)
