"""Requests to a Conductor server over HTTP, and the messages about failed ones.

Nothing is retried here: callers know whether a call may be made twice, and how long to wait.
"""

import ssl
from collections.abc import Mapping
from typing import Final, TypeVar

import httpx2
import msgspec

from podium.engines.conductor.connection import Connection
from podium.engines.errors import EngineRefused, EngineUnavailable
from podium.errors import PodiumError
from podium.text import reason_of

CALL_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 10.0
# Every open long poll occupies one.
_CONNECTIONS: Final = 128
_TOKEN_HEADER: Final = "X-Authorization"
_UNAUTHORIZED: Final = (401, 403)
_TOO_MANY: Final = 429
_T = TypeVar("_T")


class Transport:
    """Raises `EngineUnavailable` if the server gives no usable answer, `EngineRefused` if it refuses."""

    def __init__(self, connection: Connection, *, seconds: float = CALL_SECONDS) -> None:
        self.connection = connection
        # How many requests were sent, for measurements.
        self.calls = 0
        self._seconds = seconds
        self._http = httpx2.AsyncClient(
            base_url=connection.url,
            headers={_TOKEN_HEADER: connection.token} if connection.token else {},
            limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            verify=ssl.create_default_context() if connection.url.startswith("https:") else False,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, kind: type[_T], params: Mapping[str, str] | None = None) -> _T:
        return self.decode(await self.send("GET", path, params=params), kind)

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        text: str | None = None,
        no: tuple[int, ...] = (),
        waits: float = 0.0,
    ) -> httpx2.Response:
        """`no`: statuses that are an answer, and not a failure. `waits`: seconds that the server may take to
        answer.
        """
        self.calls += 1
        content, kind = _content_of(body, text)
        try:
            answer = await self._http.request(
                method,
                path,
                params=params,
                content=content,
                headers={"Content-Type": kind} if kind else None,
                timeout=self._timeout(waits),
            )
        except httpx2.TimeoutException as error:
            raise self._unreachable(f"no answer to {method} {path} in time") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._unreachable(_first_line(error)) from error
        if not answer.is_success and answer.status_code not in no:
            raise self.failure(method, path, answer)
        if answer.status_code in no and not _is_of_conductor(answer):
            raise self._not_conductor(answer)
        return answer

    def _timeout(self, waits: float) -> httpx2.Timeout:
        return httpx2.Timeout(self._seconds + waits, connect=min(self._seconds, _CONNECT_SECONDS))

    def decode(self, answer: httpx2.Response, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._not_conductor(answer) from error

    def _unreachable(self, reason: str) -> EngineUnavailable:
        return EngineUnavailable(
            f"{self.connection.place} cannot be reached: {reason}; check --url (PODIUM_CONDUCTOR_URL) and whether the "
            "server runs"
        )

    def _not_conductor(self, answer: httpx2.Response) -> EngineUnavailable:
        request = f"{answer.request.method} {answer.request.url.path}"
        return EngineUnavailable(
            f"the server at {self.connection.url} does not answer as Conductor does ({answer.status_code} to "
            f"{request}); check --url (PODIUM_CONDUCTOR_URL): it is the server's own address, without /api"
        )

    def failure(self, method: str, path: str, answer: httpx2.Response) -> PodiumError:
        """The error that describes a failed response to a person."""
        status, place = answer.status_code, self.connection.place
        if status in _UNAUTHORIZED:
            given = "this token" if self.connection.token else "a client without a token"
            return EngineRefused(
                f"{place} does not accept {given} ({status} to {method} {path}); check --token-file or "
                "PODIUM_CONDUCTOR_TOKEN"
            )
        if status < 400 or (status < 500 and status != _TOO_MANY and not _is_of_conductor(answer)):
            return self._not_conductor(answer)
        said = f"{place} answered {status} to {method} {path}: {message_of(answer)}"
        if status >= 500 or status == _TOO_MANY:
            return EngineUnavailable(f"{said}; try again, and look at the log of the server")
        return EngineRefused(f"{said}; check that its version is supported (3.x)")


class _Invalid(msgspec.Struct):
    path: str = ""
    message: str = ""


class _Problem(msgspec.Struct, rename="camel"):
    """Conductor's format of an error."""

    status: int
    message: str | None = None
    validation_errors: list[_Invalid] | None = None


def _is_of_conductor(answer: httpx2.Response) -> bool:
    return _problem_of(answer) is not None


def message_of(answer: httpx2.Response) -> str:
    problem = _problem_of(answer)
    message = problem.message if problem is not None else answer.text
    if problem is not None and problem.validation_errors:
        message = "; ".join(one.message for one in problem.validation_errors)
    return (message or "no message").strip().split("\n")[0][:300]


def _problem_of(answer: httpx2.Response) -> _Problem | None:
    try:
        return msgspec.json.decode(answer.content, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _content_of(body: object, text: str | None) -> tuple[bytes | None, str | None]:
    if text is not None:
        return text.encode(), "text/plain; charset=utf-8"
    if body is None:
        return None, None
    return msgspec.json.encode(body), "application/json"


def _first_line(error: BaseException) -> str:
    return reason_of(error).strip().split("\n")[0][:300]
