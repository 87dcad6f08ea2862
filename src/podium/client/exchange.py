"""What follows from an answer or its absence: a value, an error, or a retry."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, NamedTuple, cast

import msgspec

from podium.client.call import Call, T
from podium.client.errors import InvalidAnswer, ServerError, ServerUnreachable
from podium.text import shortened


class Received(NamedTuple):
    """`headers`: with names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Outcome = Received | ServerUnreachable


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum number of attempts, and the delays between them in seconds.

    Only requests that may be repeated are sent again: after a connection failed, and after 503 with
    `Retry-After`.
    """

    attempts: int = 4
    first_wait: float = 0.25
    max_wait: float = 10.0

    def wait_after(self, call: Call[Any], attempt: int, outcome: Outcome) -> float | None:
        """None: the outcome is final."""
        if not call.is_repeatable or attempt >= self.attempts:
            return None
        if isinstance(outcome, ServerUnreachable):
            return self.backoff(attempt)
        asked = _retry_after(outcome)
        if outcome.status != 503 or asked is None:
            return None
        return min(asked, self.max_wait)

    def backoff(self, attempt: int) -> float:
        return min(self.first_wait * (1 << min(attempt - 1, 30)), self.max_wait)


# For following a run, because restarting a server takes a while.
RECONNECTS = Retries(attempts=12)


def read(call: Call[T], outcome: Outcome) -> T:
    """The answer; raises if it is an error."""
    if isinstance(outcome, ServerUnreachable):
        raise outcome
    if not 200 <= outcome.status < 300:
        raise refusal(outcome)
    if call.answer is NoneType:
        return cast("T", None)
    if call.answer is bytes:
        return cast("T", outcome.body)
    try:
        return msgspec.json.decode(outcome.body, type=call.answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidAnswer(
            f"{call.method} {call.url} was not answered as by a Podium server: {error}; check the address"
        ) from None


class _Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    code: str
    detail: str
    location: str = ""
    valid: str = ""
    request_id: str = ""
    diagnostics: tuple[dict[str, Any], ...] = ()


def refusal(received: Received) -> ServerError | InvalidAnswer:
    try:
        found = msgspec.json.decode(received.body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shown = shortened(received.body[:200].decode("ascii", "replace"))
        return InvalidAnswer(
            f"status {received.status} without a problem of Podium: {shown!r}; check the address, and what is between "
            "this program and the server"
        )
    return ServerError(
        found.code,
        found.detail,
        status=received.status,
        location=found.location,
        valid=found.valid,
        request_id=found.request_id,
        diagnostics=found.diagnostics,
        retry_after=_retry_after(received),
    )


def _retry_after(received: Received) -> float | None:
    """In seconds; our server does not send dates."""
    text = received.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None
