"""The events of one run without gaps or repetitions, however often the connection breaks."""

from collections.abc import Iterator
from typing import Final

import msgspec

from podium.client import calls
from podium.client.answers import Event, Run
from podium.client.call import Call, T
from podium.client.errors import InvalidAnswer, ServerError, ServerUnreachable
from podium.client.exchange import Received, Retries, refusal
from podium.client.frames import Frame
from podium.log.transitions import RUN_ENDS, TERMINAL

# Code at the end of a stream: its server stops, and another one continues.
_SHUTDOWN: Final = "SHUTDOWN"
_STATUS_OF_END: Final = {"TOKEN_INVALID": 401, "RUN_NOT_FOUND": 404}


class _Events(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    events: dict[str, tuple[Event, ...]] = {}


class _End(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    code: str


class Following:
    """The position of a run's follower.

    `is_maybe_over`: ask the server whether the run has ended. `is_complete`: it has, and nothing is missing.
    """

    def __init__(self, run_id: str, after: int, reconnects: Retries) -> None:
        self._run_id = run_id
        self._reconnects = reconnects
        # The position in the address of the stream, and its cursor.
        self._after = after
        self._cursor: str | None = None
        self._seen = after
        self._failures = 0
        self.is_maybe_over = False
        self.is_complete = False

    def call(self) -> Call[bytes]:
        return calls.stream(self._run_id, self._after, self._cursor)

    def has_all(self, run: Run) -> bool:
        """Whether the run has ended and every event of it was returned."""
        self.is_maybe_over = run.status in TERMINAL
        self.is_complete = self.is_maybe_over and run.run_seq <= self._seen
        return self.is_complete

    def refused(self, received: Received) -> None:
        """The stream was not opened. Raises unless the server asks to try again later."""
        if self._reconnects.wait_after(self.call(), self._failures + 1, received) is None:
            raise refusal(received)

    def take(self, frame: Frame) -> Iterator[Event]:
        """The new events. Raises `ServerError` if the server ended the stream for good."""
        if frame.id is not None:
            self._cursor, self._failures = frame.id, 0
        if frame.event == "end":
            self._end(_decoded(frame, _End).code)
        elif frame.event == "resync":
            self._after, self._cursor = self._seen, None
        elif frame.event == "message" and frame.data:
            yield from self._new(_decoded(frame, _Events).events.get(self._run_id, ()))

    def _new(self, events: tuple[Event, ...]) -> Iterator[Event]:
        for event in events:
            if event.run_seq > self._seen:
                self._seen = event.run_seq
                self.is_maybe_over |= event.event_type in RUN_ENDS
                yield event

    def _end(self, code: str) -> None:
        if code != _SHUTDOWN:
            reason = f"the server ended the stream of run {self._run_id!r}: {code}"
            raise ServerError(code, reason, status=_STATUS_OF_END.get(code, 400))

    def wait(self) -> float:
        """The delay before the next connection. Raises `ServerUnreachable` after too many without a frame."""
        self._failures += 1
        if self._failures >= self._reconnects.attempts:
            raise ServerUnreachable(
                f"the stream of run {self._run_id!r} ended {self._failures} times in a row before its first frame; "
                f"events up to {self._seen} were received: follow again with after={self._seen}"
            )
        return self._reconnects.backoff(self._failures)


def _decoded(frame: Frame, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(frame.data, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidAnswer(f"the stream has a frame that cannot be read: {error}") from None
