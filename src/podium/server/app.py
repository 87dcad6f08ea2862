"""The application: routes, the layers around every request, and the translation of errors."""

from typing import TYPE_CHECKING, Any, Final

from litestar import Litestar, Router
from litestar.config.app import AppConfig
from litestar.di import Provide
from litestar.exceptions import HTTPException

from podium.errors import PodiumError
from podium.operations.parts import Parts
from podium.server import (
    access_routes,
    audit_routes,
    control_routes,
    file_routes,
    fleet_routes,
    hook_routes,
    login_routes,
    machine_routes,
    plan_routes,
    problems,
    run_routes,
    schedule_routes,
    stream_routes,
    view_routes,
    webhook_routes,
)
from podium.server.asking import Guard, Server, provide_caller
from podium.server.declaring import require_declarations
from podium.server.layers import RequestIds, StrictPaths
from podium.server.parameters import KnownParameters
from podium.server.reading import MAX_BODY, ApiRequest
from podium.server.recording import MissRecorder
from podium.server.stream_service import StreamService

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import ASGIApp

PREFIX: Final = "/api/v1"
# Below the prefix. Routes of other parts are listed here, too.
API_ROUTES: Final[list[Any]] = [
    *plan_routes.ROUTES,
    *run_routes.ROUTES,
    *view_routes.ROUTES,
    *file_routes.ROUTES,
    *control_routes.ROUTES,
    *audit_routes.ROUTES,
    *access_routes.ROUTES,
    *fleet_routes.ROUTES,
    *schedule_routes.ROUTES,
    *hook_routes.ROUTES,
    *webhook_routes.ROUTES,
    *machine_routes.ROUTES,
    *stream_routes.ROUTES,
]
# Handlers receive these by name.
DEPENDENCIES: Final = ("asking", "serving", "streams")
OUTER_ROUTES: Final[list[Any]] = [*machine_routes.PUBLIC_ROUTES, *login_routes.ROUTES]


def route_handlers() -> list[Any]:
    return [Router(PREFIX, route_handlers=API_ROUTES), *OUTER_ROUTES]


def make_routes(parts: Parts, streams: StreamService) -> Litestar:
    """Raises `RuntimeError` if a handler does not declare an operation."""
    known_parameters = KnownParameters()
    app = Litestar(
        route_handlers=route_handlers(),
        dependencies={
            "asking": Provide(provide_caller(parts), sync_to_thread=False),
            "serving": Provide(lambda: Server(parts), sync_to_thread=False),
            "streams": Provide(lambda: streams, sync_to_thread=False),
        },
        guards=[Guard(parts), known_parameters],
        after_exception=[MissRecorder(parts)],
        exception_handlers={
            PodiumError: problems.foreseen,
            HTTPException: problems.of_framework,
            Exception: problems.unforeseen,
        },
        request_class=ApiRequest,
        request_max_body_size=MAX_BODY,
        # The framework's pages would answer without a token; ours is a route like any other.
        openapi_config=None,
        logging_config=None,
        on_app_init=[_without_debugging],
    )
    require_declarations(app)
    known_parameters.learn(app)
    return app


def _without_debugging(config: AppConfig) -> AppConfig:
    """Otherwise an environment variable of the framework could show tracebacks to callers."""
    config.debug = False
    return config


def make_app(
    parts: Parts, streams: StreamService, authenticated: "Callable[[ASGIApp], ASGIApp]"
) -> "ASGIApp":
    """`authenticated`: wraps the whole application, so that paths that do not exist require a token, too."""
    return RequestIds(authenticated(StrictPaths(make_routes(parts, streams))), parts.telemetry)
