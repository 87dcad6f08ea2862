"""HTTP steps: one request, and its answer as the step's output (D68)."""

import asyncio
import math
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import fill_in, render
from podium.plan.plan import Http
from podium.runtime.extras import ExtraMissing, install_hint
from podium.runtime.tasks import paths
from podium.runtime.tasks.addresses import AddressRefused, check_host
from podium.runtime.tasks.caps import CapExceeded, cap_of, exceeded
from podium.runtime.tasks.capturing import (
    captured_facts,
    check_files,
    check_schema,
    most_kept,
    most_shown,
    shown_facts,
)
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    CancelToken,
    TaskOrder,
    TaskResult,
    completed,
    failed,
    stopped,
    timed_out,
)
from podium.runtime.tasks.output import Output
from podium.runtime.tasks.paths import OutputNotKept
from podium.text import reason_of, shortened

if TYPE_CHECKING:
    from podium.runtime.tasks import http_client

_MAX_REDIRECTS: Final = 10
_MAX_PORT: Final = 65535
_TOO_MANY_REQUESTS: Final = 429
_UNAVAILABLE: Final = 503


class HttpTasks:
    """A `Performer`."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._made: Any = None

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        body = order.step.body
        assert isinstance(body, Http)
        if stopping.is_asked:
            return stopped(stopping.code)
        try:
            library = _library()
            prepared = Prepared(order, body, self._host)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        try:
            return await self._until_end(library, prepared, stopping)
        finally:
            prepared.out.close()
            if prepared.file is not None:
                prepared.file.new.discard()

    async def close(self) -> None:
        if self._made is not None:
            await self._made.aclose()

    def _client(self, library: Any) -> Any:
        if self._made is None:
            self._made = library.new_client()
        return self._made

    async def _until_end(self, library: Any, prepared: "Prepared", stopping: CancelToken) -> TaskResult:
        loop = asyncio.get_running_loop()
        started = loop.time()
        exchange = asyncio.ensure_future(_exchange(self._client(library), prepared))
        try:
            first = await stopping.wait(exchange, within=prepared.order.step.timeout)
        finally:
            if not exchange.done():
                exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)
        prepared.out.end()
        facts = shown_facts(prepared.out, most_shown(prepared.work, prepared.order.workflow))
        facts["durationMs"] = round((loop.time() - started) * 1000)
        if first == "timed_out":
            return timed_out(prepared.order.step.timeout, **facts)
        if first == "cancelled":
            return stopped(stopping.code, **facts)
        try:
            answer = exchange.result()
        except CapExceeded as error:
            return failed(1, error.code, str(error), retryable=False, **facts)
        except AddressRefused as refused:
            return failed(FAILED_BEFORE_START, refused.code, str(refused), retryable=False, **facts)
        except library.NO_ADDRESS as error:
            message = f"{prepared.described} is not an address that can be called{prepared.reason_of(error)}"
            return failed(FAILED_BEFORE_START, AddressRefused.code, message, retryable=False, **facts)
        except (*library.FAILURES, OSError, ValueError) as error:
            message = f"{prepared.described} failed: {reason_of(error)}"
            return failed(1, "HTTP_FAILED", message, **facts)
        return await prepared.result(answer, facts)


def _library() -> Any:
    try:
        from podium.runtime.tasks import http_client
    except ImportError as error:
        raise ExtraMissing(f"HTTP steps: {install_hint('http')}") from error
    return http_client


class Prepared:
    """Everything about a request that can be wrong before it is made, and how its answer is handled."""

    def __init__(self, order: TaskOrder, body: Http, host: TaskHost) -> None:
        lookup, directory = order.lookup, host.directory
        self.order = order
        self.work = body.work
        self.host = host
        self._expected = body.expect_status
        host.secrets_of(body.work)
        self.method = body.method
        self.url = render(body.url, lookup)
        # Mask before truncating: the first half of a secret that is cut in two would not be recognised.
        shown = self.url if host.redactor is None else host.redactor.redact(self.url)
        if not self.url.startswith(("http://", "https://")):
            raise AddressRefused(
                f"{shortened(shown, 200)!r} is not an address: it must start with https:// or http://"
            )
        # Without the query and the part before @, where keys are often placed.
        self.described = f"{self.method} {_shown(shown)}"
        self.headers = {name: render(text, lookup) for name, text in body.headers.items()}
        self.content = self._content(fill_in(body.body, lookup))
        self._files = paths.expected_files(body.work, lookup, directory)
        self.file = paths.output_file(body.work, lookup, directory)
        self.out = Output(
            directory.fresh_step_file(order.path, order.attempt, "out"),
            keep=most_kept(body.work, order.workflow),
            redactor=host.redactor,
            whole=self.file.new if self.file is not None else None,
            limits=body.work.limits,
        )
        self.max_body = cap_of("body", body.work.limits)

    def _content(self, body: Any) -> bytes | None:
        if body is None:
            return None
        given = {name.lower() for name in self.headers}
        kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
        if "content-type" not in given:
            self.headers["Content-Type"] = kind
        return body.encode() if isinstance(body, str) else msgspec.json.encode(body)

    @property
    def allowed(self) -> Sequence[str]:
        return self.order.workflow.http_allow

    def holds_a_secret(self, value: bytes) -> bool:
        redactor = self.host.redactor
        return redactor is not None and redactor.redact_bytes(value) != value

    def reason_of(self, error: Exception) -> str:
        """What is wrong with the address. The text may quote a part of it, and so a part of a secret: then it
        is omitted.
        """
        return "" if self.holds_a_secret(self.url.encode()) else f": {reason_of(error)}"

    async def result(self, response: "http_client.Response", facts: dict[str, Any]) -> TaskResult:
        status = response.status_code
        facts["statusCode"] = status
        if not (status in self._expected if self._expected else 200 <= status < 300):
            return _wrong_status(self.described, response, facts)
        try:
            if self.out.problem is not None:
                raise OutputNotKept(f"the answer could not be written: {self.out.problem}")
            if self.file is not None:
                facts |= await self.file.keep(held_a_secret=self.out.held_a_secret)
            facts |= captured_facts(self.out, self.work)
            check_files(self._files, self.host.directory, self.work.limits)
            check_schema(self.work, facts, self.out)
        except PodiumError as unmet:
            return failed(1, unmet.code, str(unmet), **facts)
        return completed(**facts)


async def _exchange(client: Any, prepared: Prepared) -> "http_client.Response":
    """The request, and further ones for redirects; the last answer's body is written to the output."""
    headers = {"Accept-Encoding": "identity", **prepared.headers}
    request = client.build_request(
        prepared.method,
        prepared.url,
        headers=[(name, value.encode()) for name, value in headers.items()],
        content=prepared.content,
    )
    for _ in range(_MAX_REDIRECTS + 1):
        _check_port(request.url.port)
        check_host(request.url.host, prepared.allowed)
        response: http_client.Response = await client.send(request, stream=True)
        try:
            following = response.next_request
            if following is None:
                size = 0
                async for chunk in response.aiter_bytes():
                    size += len(chunk)
                    if size > prepared.max_body:
                        raise exceeded("body", prepared.max_body)
                    prepared.out.write(chunk)
                    if prepared.out.exceeding.error is not None:
                        raise prepared.out.exceeding.error
                return response
        finally:
            await response.aclose()
        if following.url.scheme not in ("http", "https"):
            raise AddressRefused(
                f"{prepared.described} leads to {following.url.scheme}:, which is not called"
            )
        if _origin(following.url) != _origin(request.url):
            _keep_secrets_back(following, prepared)
        request = following
    raise ValueError(f"more than {_MAX_REDIRECTS} redirects")


def _check_port(port: int | None) -> None:
    """The library would connect to any number."""
    if port is not None and not 0 < port <= _MAX_PORT:
        raise AddressRefused(f"{port} is not a port; ports are numbers from 1 to {_MAX_PORT}")


def _origin(url: Any) -> tuple[str, str, int | None]:
    return (url.scheme, url.host, url.port)


def _keep_secrets_back(request: "http_client.Request", prepared: Prepared) -> None:
    """For a redirect to another host: a secret was meant for the first one."""
    for name, value in request.headers.raw:
        if prepared.holds_a_secret(value):
            del request.headers[name.decode("latin-1")]
    if prepared.content is not None and prepared.holds_a_secret(prepared.content) and request.method != "GET":
        raise AddressRefused(f"{prepared.described} leads to another host, and its body holds a secret")


def _wrong_status(described: str, response: "http_client.Response", facts: dict[str, Any]) -> TaskResult:
    status = response.status_code
    message = f"{described} answered {status} {response.reason_phrase}".rstrip()
    wait = _retry_after(response.headers.get("retry-after"))
    if status == _TOO_MANY_REQUESTS or (status == _UNAVAILABLE and wait is not None):
        result = failed(1, "RATE_LIMIT", message, **facts)
        if wait is not None:
            result.payload["error"]["retryAfterMs"] = wait
        return result
    return failed(1, "HTTP_STATUS", message, **facts)


def _retry_after(text: str | None) -> int | None:
    """Milliseconds: the header holds seconds, or a moment."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text.strip()[:9]) * 1000
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, math.ceil((moment - time.time()) * 1000))


def _shown(url: str) -> str:
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"[:300]
