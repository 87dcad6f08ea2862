"""Sends an `HttpCall` with httpx2 (the extra `http`).

The answer is written to a file as it arrives, up to a limit, and passed to an observer line by line. To
cancel, cancel the task: the connection is closed with it. No retries here: the workflow says how often to
retry.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from podium.ports.provider import HttpCall, HttpResult, ProviderNotAvailable
from podium.text import reason_of

_CONNECT_SECONDS: Final = 30.0
# A model may think for a long time before its first word; the step's own time limit applies.
_SILENCE_SECONDS: Final = 3600.0
_MAX_LINE: Final = 1 << 20


async def send(
    call: HttpCall,
    body: Path,
    on_line: Callable[[bytes], object] | None = None,
    *,
    max_body: int = 256 << 20,
) -> HttpResult:
    """The result of the call; the answer itself, at most `max_body` bytes of it, is in the file `body`.

    Raises only if httpx2 is not installed.
    """
    try:
        import httpx2
    except ImportError as error:
        raise ProviderNotAvailable("this provider needs httpx2: pip install 'podium[http]'") from error
    timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    lines = _Lines(on_line)
    status, headers = 0, {}
    try:
        async with (
            httpx2.AsyncClient(timeout=timeout, follow_redirects=False) as client,
            client.stream(call.method, call.url, headers=dict(call.headers), json=call.body) as answer,
        ):
            status = answer.status_code
            headers = {name.lower(): value for name, value in answer.headers.items()}
            size = 0
            with body.open("wb") as file:
                async for chunk in answer.aiter_bytes():
                    size += len(chunk)
                    if size > max_body:
                        return HttpResult(status, body, headers, was_cut=True, is_too_large=True)
                    file.write(chunk)
                    lines.feed(chunk)
            lines.end()
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        problem = f"{type(error).__name__}: {reason_of(error)}"
        return HttpResult(status, body if status else b"", headers, was_cut=bool(status), problem=problem)
    return HttpResult(status, body, headers)


class _Lines:
    def __init__(self, on_line: Callable[[bytes], object] | None) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        if self._on_line is None:
            return
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._on_line(line)
        if len(self._rest) > _MAX_LINE:
            self._rest = b""

    def end(self) -> None:
        if self._on_line is not None and self._rest:
            self._on_line(self._rest)
