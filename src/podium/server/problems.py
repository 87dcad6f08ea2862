"""Errors as `application/problem+json`, with the codes that the CLI and the log use."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, ValidationException
from litestar.params import QueryParameter

from podium.errors import PodiumError, RunRefused
from podium.server.asking import REQUEST_ID
from podium.server.locating import location_of
from podium.server.rate_limiting import RateLimited
from podium.server.valid_values import valid_in_query
from podium.text import visible, without_credentials

_LOG: Final = logging.getLogger("podium.server")
MEDIA_TYPE: Final = "application/problem+json"
_BAD, _DENIED, _MISSING, _CONFLICT = 400, 403, 404, 409
_TOO_MANY, _UNAVAILABLE = 429, 503
RETRY_SECONDS: Final = 5
# All other foreseen errors are bad requests.
STATUS_OF: Final[Mapping[str, int]] = {
    "AUTHZ_DENIED": _DENIED,
    "AUTHZ_REASON_REQUIRED": _DENIED,
    "AUTHZ_TENANT_FORBIDDEN": _DENIED,
    "CSRF_REFUSED": _DENIED,
    "RUN_NOT_FOUND": _MISSING,
    "TOKEN_NOT_FOUND": _MISSING,
    "TENANT_CLOSED": _CONFLICT,
    "TENANT_REFUSED": _CONFLICT,
    "WORKER_NOT_FOUND": _MISSING,
    "LIMIT_NOT_FOUND": _MISSING,
    "PLAN_NOT_PUBLISHED": _MISSING,
    "SCHEDULE_NOT_FOUND": _MISSING,
    "HOOK_NOT_FOUND": _MISSING,
    "WEBHOOK_NOT_FOUND": _MISSING,
    "HOOK_REFUSED": 401,
    "PATH_NOT_FOUND": _MISSING,
    "ARTIFACT_NOT_FOUND": _MISSING,
    "LOG_NOT_FOUND": _MISSING,
    "METHOD_NOT_ALLOWED": 405,
    "REQUEST_TOO_LARGE": 413,
    "MEDIA_TYPE_UNSUPPORTED": 415,
    "INVALID_WORKFLOW": 422,
    "RUN_REQUEST_CONFLICT": _CONFLICT,
    "RUN_REQUEST_PRUNED": _CONFLICT,
    "PLAN_EXISTS": _CONFLICT,
    "HOOK_EXISTS": _CONFLICT,
    "WEBHOOK_EXISTS": _CONFLICT,
    "HOOK_REPLAYED": _CONFLICT,
    "SCHEDULE_EXISTS": _CONFLICT,
    "SCHEDULE_CHANGED": _CONFLICT,
    "SCHEDULE_BACKFILL_ACTIVE": _CONFLICT,
    "APPROVAL_PLAN_MISMATCH": _CONFLICT,
    "APPROVAL_DECIDED": _CONFLICT,
    "RUN_TERMINAL": _CONFLICT,
    "RUN_COMPLETED": _CONFLICT,
    "RUN_NOT_TERMINAL": _CONFLICT,
    "RUN_NOT_PRUNABLE": _CONFLICT,
    "RUN_NOT_APPROVED": _CONFLICT,
    "RUN_EXISTS": _CONFLICT,
    "RUN_LOCKED": _CONFLICT,
    "OTHER_ENGINE": _CONFLICT,
    "NOT_FOR_POOL": _CONFLICT,
    "SIGNAL_DUPLICATE": _CONFLICT,
    "SIGNAL_IGNORED": _CONFLICT,
    "STEP_RUNNING": _CONFLICT,
    "STEP_TERMINAL": _CONFLICT,
    "STEP_NOT_TERMINAL": _CONFLICT,
    "CONCURRENCY_LIMIT": _CONFLICT,
    "LOG_MOVED": _CONFLICT,
    "STALE_FENCE": _CONFLICT,
    "PLAN_MISSING": _CONFLICT,
    "NOT_READY": _CONFLICT,
    "RUN_REFUSED": _TOO_MANY,
    "SIGNAL_RATE_LIMITED": _TOO_MANY,
    "HOOK_RATE_LIMITED": _TOO_MANY,
    "RATE_LIMITED": _TOO_MANY,
    "CONFIG_INVALID": _UNAVAILABLE,
    "STORE_UNAVAILABLE": _UNAVAILABLE,
    # Not the client's mistake: a newer server on the same store does it.
    "STORE_VERSION": _UNAVAILABLE,
    "ARTIFACT_STORE_UNAVAILABLE": _UNAVAILABLE,
    "INTERNAL_ERROR": 500,
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An error as RFC 9457 wants it, with our code. `location`: where in the request, like `$.inputs.version`."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    location: str = ""
    # What would be right there.
    valid: str = ""
    request_id: str = ""
    # Every problem of a workflow, with its position.
    diagnostics: tuple[dict[str, Any], ...] = ()


class BadRequest(PodiumError):
    """A request that cannot be parsed: `location` says where, `valid` what would be valid there."""

    code = "REQUEST_INVALID"

    def __init__(self, message: str, location: str = "", valid: str = "") -> None:
        super().__init__(message, valid=valid)
        self.location = location


class UnsupportedMediaType(BadRequest):
    code = "MEDIA_TYPE_UNSUPPORTED"


class RequestTooLarge(BadRequest):
    code = "REQUEST_TOO_LARGE"


class PathNotFound(BadRequest):
    code = "PATH_NOT_FOUND"


class MethodNotAllowed(BadRequest):
    code = "METHOD_NOT_ALLOWED"


def status_of(code: str) -> int:
    return STATUS_OF.get(code, _BAD)


def problem_of(error: PodiumError, request_id: str, location: str = "") -> Problem:
    """`location`: if the error itself does not know it."""
    status = status_of(error.code)
    # For an invalid workflow. Its class is not imported for this, which would take as long as all routes.
    found = getattr(error, "diagnostics", ())
    return Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        code=error.code,
        detail=_shown(error) if not found else "the workflow is not valid",
        location=getattr(error, "location", "") or location,
        valid=error.valid,
        request_id=request_id,
        diagnostics=tuple(one.as_json() for one in found),
    )


def _shown(error: PodiumError) -> str:
    """Some errors quote a line and mark the place below it: they keep their lines, as on the command line."""
    return "\n".join(visible(line) for line in without_credentials(str(error)).split("\n"))


def respond_with(
    error: PodiumError, request_id: str, headers: Mapping[str, str] | None = None, *, location: str = ""
) -> Response[bytes]:
    problem = problem_of(error, request_id, location)
    sent = {"Cache-Control": "no-store", **(headers or {}), **retry_after(error)}
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=sent
    )


def retry_after(error: PodiumError) -> dict[str, str]:
    """The header for a client that may try again."""
    if isinstance(error, RunRefused | RateLimited):
        return {"Retry-After": str(error.retry_after_seconds)}
    return {"Retry-After": str(RETRY_SECONDS)} if status_of(error.code) in (_TOO_MANY, _UNAVAILABLE) else {}


# --- handlers of exceptions --------------------------------------------------------------------------


def foreseen(request: Request[Any, Any, Any], error: PodiumError) -> Response[bytes]:
    return respond_with(error, _id_of(request), location=location_of(error, request.scope))


def of_framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Errors of the framework: unknown paths and methods, parameters of another type, large bodies."""
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return unforeseen(request, error)
    if isinstance(error, MethodNotAllowedException):
        allowed = (error.headers or {}).get("allow", "").replace(" ", "").split(",")
        allow = ", ".join(sorted(set(allowed) - {"OPTIONS"}))
        refused = MethodNotAllowed("this method is not possible here", valid=allow)
        return respond_with(refused, _id_of(request), {"Allow": allow})
    return respond_with(_translated(error, request), _id_of(request))


def _translated(error: HTTPException, request: Request[Any, Any, Any]) -> PodiumError:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return PathNotFound("nothing is at this path; GET /api/v1/openapi.json lists all paths")
    if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return RequestTooLarge("the body is larger than 1 MiB", "$", "at most 1,048,576 bytes")
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        return _bad_parameter(error.extra[0], request.route_handler)
    return BadRequest(error.detail)


def _bad_parameter(found: Mapping[str, Any], handler: Any) -> BadRequest:
    name, source = str(found.get("key", "")), getattr(found.get("source"), "value", found.get("source"))
    if name == "data":
        return BadRequest("the body is missing", "$", "one JSON object in UTF-8")
    return BadRequest(str(found.get("message", "")), f"{source or 'parameter'}.{name}", _valid(handler, name))


def _valid(handler: Any, name: str) -> str:
    for own_name, field in handler.parsed_fn_signature.parameters.items():
        definition = field.kwarg_definition
        if isinstance(definition, QueryParameter) and (definition.name or own_name) == name:
            return valid_in_query(field.annotation, definition.ge, definition.le)
    return ""


def unforeseen(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A defect: the log has the details, the caller only learns where to look."""
    _LOG.error("request %s failed", _id_of(request), exc_info=error)
    return respond_with(InternalError(_id_of(request)), _id_of(request))


class InternalError(PodiumError):
    code = "INTERNAL_ERROR"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"the server failed; its log says why, under request {request_id}")


def _id_of(request: Request[Any, Any, Any]) -> str:
    return str(request.scope["state"].get(REQUEST_ID, ""))
