"""Query parameters that a route does not have are refused: a filter that is misspelled would select everything."""

from typing import TYPE_CHECKING, Any, Final, cast

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


class KnownParameters:
    """A guard of all routes. `learn` takes the names from the signatures of the handlers."""

    def __init__(self) -> None:
        # By path and method of the route.
        self._names: dict[tuple[str, str], frozenset[str]] = {}

    def learn(self, app: Litestar) -> None:
        for route in app.routes:
            if isinstance(route, HTTPRoute):
                for method, (_, model) in route.route_handler_map.items():
                    names = frozenset(one.field_alias for one in model.expected_query_params)
                    self._names[route.path_format, method] = names

    async def __call__(
        self, connection: "ASGIConnection[Any, Any, Any, Any]", handler: BaseRouteHandler
    ) -> None:
        declared = declared_by(handler)
        # An identity provider and the sender of a hook may add parameters of their own.
        if declared is None or declared.operation == PUBLIC:
            return
        scope = cast("HTTPScope", connection.scope)
        known = self._names[scope["path_template"], scope["method"]]
        for name in connection.query_params:
            if name not in known:
                shown = shortened(visible(name), _MAX_NAME)
                valid = f"parameters: {', '.join(sorted(known))}" if known else "no parameters"
                raise BadRequest(f"unknown query parameter {shown!r}", f"query.{shown}", valid)
