"""Routes for programs about the server itself."""

from typing import Any, Final

from litestar import Response, get
from litestar.di import NamedDependency

from podium.operations.measuring import exposition
from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.run_routes import AnyRequest
from podium.server.stream_service import StreamService

# The version of the format, not of Podium. The framework adds the charset.
_PROMETHEUS: Final = "text/plain; version=1.0.0"


@get(
    "/healthz",
    media_type="text/plain",
    opt=declares("public", "read"),
    summary="Whether the process answers.",
)
async def healthz() -> Response[str]:
    return Response("ok", media_type="text/plain", headers={"Cache-Control": "no-store"})


@get(
    "/readyz",
    opt=declares("server.view", "read", "STORE_UNAVAILABLE"),
    summary="Whether the store answers.",
)
async def readyz(asking: Asking, request: AnyRequest) -> Response[dict[str, str]]:
    await asking.parts.store.store_id()
    return answer(request, {"status": "ready"})


@get(
    "/metrics",
    media_type="text/plain",
    opt=declares("server.view", "list", "STORE_UNAVAILABLE"),
    summary="What this server does and what waits in the tenant, for Prometheus.",
)
async def get_metrics(asking: Asking, streams: NamedDependency[StreamService]) -> Response[bytes]:
    text = await exposition(asking.parts, asking.tenant_id, stream_clients=streams.count)
    return Response(text, media_type=_PROMETHEUS, headers={"Cache-Control": "no-store"})


@get("/openapi.json", opt=declares("server.view", "read"), summary="This API as an OpenAPI 3.1 document.")
async def get_openapi(request: AnyRequest) -> Response[dict[str, Any]]:
    from podium.server.openapi import document

    return answer(request, document())


PUBLIC_ROUTES: Final = [healthz]
ROUTES: Final = [readyz, get_metrics, get_openapi]
