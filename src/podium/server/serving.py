"""One server process: its store, the application, and uvicorn around it."""

import asyncio
import logging
import resource
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import uvicorn
from msgspec.structs import replace

from podium.operations.live_grants import is_live
from podium.operations.log_watching import LogHub
from podium.operations.measuring import measure_loop_lag, observed
from podium.operations.open_machines import OpenMachines
from podium.operations.parts import Parts
from podium.operations.projecting import BackgroundProjector
from podium.operations.run_watching import RunHub
from podium.operations.sessions import first_login
from podium.runtime.listening import BACKLOG, Listening
from podium.server.app import make_app
from podium.server.authentication import Authentication
from podium.server.connections import ImpatientProtocol
from podium.server.security_headers import SecurityHeaders
from podium.server.stream_service import StreamService
from podium.wiring.access import access_policy, known_audit_key, oidc_settings, rate_limits
from podium.wiring.stores import open_store, runs_folder, store_url, use_configured_permissions
from podium.wiring.use_cases import server_telemetry, use_case_parts

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from litestar.types import ASGIApp

    from podium.access.oidc import OidcRules
    from podium.access.rate_limits import RateLimits

_LOG: Final = logging.getLogger(__name__)
# Limit for an incomplete request line with its headers.
_MAX_HEAD: Final = 64 << 10
_KEEP_ALIVE_SECONDS: Final = 15
_SHUTDOWN_SECONDS: Final = 10


async def serve(listening: Listening, traces: str | None = None) -> None:
    """Runs until SIGTERM or SIGINT. Raises `ListeningRefused`, and what opening the store raises."""
    listening.check()
    allow_connections()
    bound = listening.listen()
    async with application(is_secure=listening.has_tls or listening.behind_proxy, traces=traces) as made:
        server = Server(configured(made.app, listening), made.streams)
        server.config.load()
        url = listening.url(bound)
        print(f"ready: {url}", flush=True)
        if made.login_code is not None:
            print(f"log in within an hour, once: {url}/login?code={made.login_code}", flush=True)
        await server.serve(sockets=[bound])


def allow_connections() -> None:
    """Raise the limit to what the system allows: with the usual 1,024 descriptors, that many idle clients
    lock out all others.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Application(NamedTuple):
    """`login_code`: on the first start, the code of the link with which its owner logs in."""

    app: "ASGIApp"
    streams: StreamService
    login_code: str | None


@asynccontextmanager
async def application(*, is_secure: bool, traces: str | None = None) -> "AsyncIterator[Application]":
    """The application on the store that the environment names. It projects in the background."""
    use_configured_permissions()
    folder = runs_folder(None)
    telemetry = server_telemetry(traces, _note)
    store = observed(await open_store(store_url(None, folder), create=True), telemetry)
    parts = replace(use_case_parts(store, folder, _note, telemetry=telemetry), machines=OpenMachines())
    streams = stream_service(parts)
    projector = BackgroundProjector(store, parts.clock, telemetry=telemetry)
    projector.start()
    lag = asyncio.create_task(measure_loop_lag(telemetry))
    try:
        # With rules in the configuration, the owner is known.
        code = await first_login(store, parts.clock) if access_policy() is None else None
        yield Application(authenticated_app(parts, streams, is_secure=is_secure), streams, code)
    finally:
        lag.cancel()
        await projector.stop()
        await store.close()
        telemetry.close()


class Server(uvicorn.Server):
    """Ends its streams first when it shuts down, because it waits for every incomplete answer."""

    def __init__(self, config: uvicorn.Config, streams: StreamService) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: "list[socket.socket] | None" = None) -> None:
        await self._streams.close()
        await super().shutdown(sockets)


def stream_service(parts: Parts) -> StreamService:
    return StreamService(
        RunHub(parts.store),
        LogHub(parts),
        lambda grant: is_live(parts.store, parts.clock, access_policy(), _oidc_rules(), grant),
    )


def _oidc_rules() -> "OidcRules | None":
    settings = oidc_settings()
    return settings.rules if settings is not None else None


def authenticated_app(
    parts: Parts,
    streams: StreamService | None = None,
    *,
    is_secure: bool = False,
    limits: "Callable[[], RateLimits]" = rate_limits,
) -> "ASGIApp":
    def wrap(app: Any) -> Any:
        known = Authentication(
            app,
            parts.store,
            parts.clock,
            access_policy,
            known_audit_key,
            oidc=oidc_settings,
            limits=limits,
            is_secure=is_secure,
            telemetry=parts.telemetry,
        )
        return SecurityHeaders(known, is_secure=is_secure)

    return make_app(parts, streams or stream_service(parts), wrap)


def configured(app: Any, listening: Listening) -> uvicorn.Config:
    """Only one parser, the strict one: two parsers that disagree about the end of a request allow request
    smuggling.
    """
    return uvicorn.Config(
        app,
        http=ImpatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=_MAX_HEAD,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ssl_certfile=listening.tls_cert,
        ssl_keyfile=str(listening.tls_key) if listening.tls_key is not None else None,
    )


def _note(text: str) -> None:
    _LOG.warning("%s", text.removeprefix("warning: "))
