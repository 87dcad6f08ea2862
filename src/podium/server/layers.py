"""Layers around the routes: an id for every request, and strict parsing of paths.

The framework ignores empty segments and decodes `%2F` before it splits a path. Both would allow many
spellings of one path, so paths are split here, before anything is decoded, and every other spelling is
refused.
"""

import logging
import re
import time
from typing import Any, Final
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import msgspec

from podium.errors import InvalidId, PodiumError
from podium.ports.log_fields import about, logging_about
from podium.ports.metrics import REQUEST_SECONDS, REQUESTS
from podium.ports.telemetry import SILENT, Telemetry
from podium.server.asking import REQUEST_ID, ROUTE, RUN, TENANT
from podium.server.problems import MEDIA_TYPE, PathNotFound, problem_of, retry_after

_LOG: Final = logging.getLogger("podium.server.access")
# Represents a slash inside a segment (`%2F`), as in the path of a step. Segments themselves must not contain
# NUL.
SLASH: Final = "\0"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
_ERRORS: Final = 400
_DOTS: Final = (".", "..")
# An escaped letter, digit or - . _ ~: with it a path that a proxy in front of us blocks could be spelled
# differently.
_NEEDLESS_ESCAPE: Final = re.compile(rb"%(?:2[deDE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")


class RequestIds:
    """The outermost layer. The id is in the answer, in problems and in the log; ids sent by callers are
    ignored.
    """

    def __init__(self, app: Any, telemetry: Telemetry = SILENT) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        since = time.perf_counter()
        request_id = uuid4().hex
        # A copy, not the dictionary that the server shares between requests.
        scope["state"] = {**scope.get("state", {}), REQUEST_ID: request_id}
        status = 0

        async def send_with_id(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        with logging_about(request=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                self._record(scope, status, time.perf_counter() - since)

    def _record(self, scope: Any, status: int, seconds: float) -> None:
        """By route pattern: no path or method of an unknown caller is in the log or becomes a label."""
        state = scope["state"]
        route = state.get(ROUTE, _OTHER)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        shown = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
        # A run that was not found has a name of the caller's.
        names = (TENANT, RUN) if 0 < status < _ERRORS else (TENANT,)
        _LOG.info("request", extra=about(**shown, **{name: state[name] for name in names if state.get(name)}))
        self._telemetry.count(REQUESTS, method, route, str(status))
        self._telemetry.observe(REQUEST_SECONDS, route, value=seconds)


class StrictPaths:
    """Refuses every spelling of a path but one. Inside the authentication, so unknown callers only learn 401."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            path = strict_path(scope.get("raw_path") or scope["path"].encode())
        except PodiumError as error:
            await send_problem(scope, send, error)
            return
        method = scope["method"]
        # The framework would answer OPTIONS by itself, although there is no route for it.
        changed = {**scope, "path": path, "method": "NONE" if method == "OPTIONS" else method}
        await self._app(changed, receive, send)


def strict_path(raw: bytes) -> str:
    """The decoded path, with `SLASH` for every encoded slash. Raises `PathNotFound`, `InvalidId`."""
    path = raw.partition(b"?")[0]
    if path == b"/":
        return "/"
    first, *segments = path.split(b"/")
    if first or not all(segments):
        raise PathNotFound("a path starts with one slash, has no empty parts and does not end with a slash")
    return "/" + "/".join(map(_segment, segments))


def _segment(raw: bytes) -> str:
    if _NEEDLESS_ESCAPE.search(raw):
        raise InvalidId(f"{raw[:60]!r} is not valid: write letters, digits and - . _ ~ as they are")
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise InvalidId(f"{raw[:60]!r} is not valid: a part of a path is UTF-8") from error
    if any(part in _DOTS or not part for part in text.split("/")) or not text.isprintable() or "\\" in text:
        raise InvalidId(f"{text[:60]!a} is not valid: use names as they were given to you, percent-encoded")
    return text.replace("/", SLASH)


async def send_problem(scope: Any, send: Any, error: PodiumError) -> None:
    """For layers outside of the framework."""
    problem = problem_of(error, str(scope["state"].get(REQUEST_ID, "")))
    body = msgspec.json.encode(problem)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *((name.lower().encode(), value.encode()) for name, value in retry_after(error).items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
