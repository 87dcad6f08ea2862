"""What programs ask about the server itself."""

from typing import Any, Final

from litestar import Response, get

from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.run_routes import AnyRequest


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


@get("/openapi.json", opt=declares("server.view", "read"), summary="This API as an OpenAPI 3.1 document.")
async def get_openapi(request: AnyRequest) -> Response[dict[str, Any]]:
    from podium.server.openapi import document

    return answer(request, document())


PUBLIC_ROUTES: Final = [healthz]
ROUTES: Final = [readyz, get_openapi]
