"""Server-sent events, in the subset that model servers use: `data:` lines with a JSON object each."""

from collections.abc import Iterator
from typing import Protocol

from podium.ports.provider import AgentOutcome, Captured, HttpResult
from podium.providers import failure_codes, reading
from podium.providers.reading import Object, text_at


def event_in(line: bytes) -> Object | None:
    """The object of a `data:` line; a bare JSON line is accepted, too."""
    line = line.strip()
    return reading.as_object(line.removeprefix(b"data:").strip() if line.startswith(b"data:") else line)


def events_of(captured: Captured) -> Iterator[Object]:
    for line in reading.lines_of(captured):
        found = event_in(line)
        if found is not None:
            yield found


class Listener(Protocol):
    @property
    def was_started(self) -> bool: ...

    def hear(self, found: Object) -> None: ...


def listen(captured: Captured, listener: Listener) -> None:
    """Pass every event to the listener; or the single object that was not streamed, which may have several
    lines.
    """
    for found in events_of(captured):
        listener.hear(found)
    if not listener.was_started:
        listener.hear(reading.as_object(reading.head_of(captured)) or {})


def refusal(result: HttpResult) -> AgentOutcome | None:
    """The outcome if the server gave no answer, or an error."""
    if result.status == 0:
        problem = result.problem or "the model server did not answer"
        return AgentOutcome(error=failure_codes.failure("PROVIDER_UNAVAILABLE", problem))
    if 200 <= result.status < 300:
        return None
    error_body = reading.as_object(reading.head_of(result.body, reading.MAX_MESSAGE * 8)) or {}
    words = (
        text_at(error_body, "error", "message")
        or text_at(error_body, "message")
        or text_at(error_body, "error")
    )
    words = words or reading.head_of(result.body, reading.MAX_MESSAGE)
    message = f"the model server answered {result.status}: {words}"
    return AgentOutcome(
        error=failure_codes.of_status(result.status, message, failure_codes.delay_in(result.headers))
    )
