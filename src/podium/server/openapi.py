"""The API as an OpenAPI 3.1 document, from the handlers and what they declare."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig

import podium
from podium.server.declaring import PUBLIC, Declared, declared_by, handlers_of
from podium.server.problems import MEDIA_TYPE, Problem, status_of

# Errors that every request with a token can return.
_ALWAYS: Final = ("REQUEST_INVALID", "UNAUTHENTICATED", "RATE_LIMITED", "STORE_UNAVAILABLE", "INTERNAL_ERROR")
_WITH_BODY: Final = ("REQUEST_TOO_LARGE", "MEDIA_TYPE_UNSUPPORTED")
_STATUS: Final = {"UNAUTHENTICATED": 401, "RATE_LIMITED": 429}


@cache
def document() -> dict[str, Any]:
    """Created for the first request: it takes longer than the start of the server."""
    from podium.server.app import DEPENDENCIES, route_handlers

    config = OpenAPIConfig(
        title="Podium",
        version=podium.__version__,
        description="Workflows that must not be lost, over HTTP. Every request shows a token: "
        "`Authorization: Bearer podium_...`. Errors are `application/problem+json` with a `code` of docs/errors.md.",
        use_handler_docstrings=False,
    )
    described = Litestar(
        route_handlers=route_handlers(),
        openapi_config=config,
        dependencies={name: Provide(_nothing(), sync_to_thread=False) for name in DEPENDENCIES},
        logging_config=None,
    )
    schema: dict[str, Any] = described.openapi_schema.to_schema()
    _, components = msgspec.json.schema_components([Problem], ref_template="#/components/schemas/{name}")
    schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    # The paths of a handler with several are in no particular order.
    schema["paths"] = dict(sorted(schema["paths"].items()))
    for path, method, handler in handlers_of(described):
        declared = declared_by(handler)
        operation = schema["paths"].get(path, {}).get(method.lower())
        if declared is not None and operation is not None:
            _complete(operation, declared)
    return schema


def _nothing() -> Callable[[], None]:
    """The document is created without a request. The framework requires a separate function for each name."""
    return lambda: None


def _complete(operation: dict[str, Any], declared: Declared) -> None:
    """Add its errors, its security, and the other format of its answer."""
    operation["x-operation"], operation["x-cost"] = declared.operation, declared.cost
    operation["security"] = [] if declared.operation == PUBLIC else [{"token": []}]
    responses: dict[str, Any] = operation["responses"]
    responses.pop("400", None)
    if "204" in responses:
        responses["204"].pop("content", None)
    for status in declared.also:
        responses[str(status)] = responses["201"]
    codes = declared.errors
    if declared.operation != PUBLIC:
        codes = (*codes, *_ALWAYS, "AUTHZ_DENIED")
    if "requestBody" in operation:
        codes = (*codes, *_WITH_BODY)
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(_STATUS.get(code) or status_of(code), []).append(code)
    for status, found in sorted(by_status.items()):
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[str(status)] = {"description": ", ".join(found), "content": content}
    if declared.has_text:
        responses["200"]["content"]["text/plain"] = {"schema": {"type": "string"}}
