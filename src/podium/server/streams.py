"""One stream of server-sent events: frames at most ten times a second, whatever the rate of events.

The server never waits for a client. What a client has not read is merged into its next frame; one that leaves
256 kB unread is asked to read everything again (`resync`), and its stream ends.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.errors import RunNotFound, StoreUnavailable
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.operations.log_watching import LogTopic, LogWatcher
from podium.operations.run_watching import RunWatcher
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.server.run_bodies import EventBody, RunBody
from podium.server.stream_topics import Topics, cursor

if TYPE_CHECKING:
    from podium.access.grants import Grant
    from podium.server.stream_service import StreamService

MAX_UNSENT_BYTES: Final = 256_000
# Limit for events in one frame: the rest is sent with the next one.
_MAX_FRAME_BYTES: Final = 128_000
# Limit for each log in one frame.
_MAX_PIECE_BYTES: Final = 32_000
_FRAME_SECONDS: Final = 0.1
_COMMENT_SECONDS: Final = 15.0
# How long a client that did not read has to read why its stream ends.
_LAST_SECONDS: Final = 5.0
_RESYNC: Final = "RESYNC"
_DISCONNECTED: Final = "DISCONNECTED"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # A buffering proxy would delay the frames.
    (b"x-accel-buffering", b"no"),
]


class LogPieceBody(msgspec.Struct, frozen=True, kw_only=True):
    """Of a log, the bytes from `start` to `end`, as text."""

    start: int
    end: int
    text: str


class FrameBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One frame: runs of the list as they are now, and what comes next of watched runs and logs."""

    runs: tuple[RunBody, ...] = ()
    events: dict[str, msgspec.Raw] = {}
    logs: dict[str, LogPieceBody] = {}


class EndBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    code: str
    run_id: str | None = None


class Stream:
    """A response of the framework: it is called with the connection and ends with it."""

    def __init__(self, service: "StreamService", topics: Topics, grant: "Grant | None") -> None:
        self._service = service
        self._topics = topics
        self.grant = grant
        self.watcher = RunWatcher(dict(topics.runs), topics.lists)
        self.logs = LogWatcher(dict(topics.logs), self.watcher)
        self._send: Any = None
        self._task: asyncio.Task[Any] | None = None
        self._is_sending = False
        # Why the stream ends, once it does.
        self._end: EndBody | None = None
        # What its client has to know, and the stream stays open.
        self._trouble: EndBody | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._send = send
        self._task = asyncio.current_task()
        gone = asyncio.create_task(self._watch_connection(receive))
        try:
            await self._service.add(self)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._frames()
        except asyncio.CancelledError:
            if self._end is None:
                raise
            # Cancelled by `end`: the stream was waiting for the client to read.
            self._task.uncancel()  # type: ignore[union-attr]
        finally:
            await self._service.remove(self)
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
        await self._finish()

    async def _finish(self) -> None:
        """Send the reason, if the client reads it soon."""
        if self._end is None or self._end.code == _DISCONNECTED:
            return
        last = _named("resync" if self._end.code == _RESYNC else "end", self._end)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def _watch_connection(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end(_DISCONNECTED)

    def end(self, code: str, run_id: str | None = None) -> None:
        """End the stream soon, even if the client does not read."""
        if self._end is not None:
            return
        self._end = EndBody(code=code, run_id=run_id)
        self.watcher.woken.set()
        if self._is_sending and self._task is not None:
            self._task.cancel()

    def report(self, code: str) -> None:
        """Send the code of an error soon; the stream stays open."""
        self._trouble = EndBody(code=code)
        self.watcher.woken.set()

    def check_unsent(self) -> None:
        """Called while others are served, because a stream whose client does not read is blocked itself."""
        if self._is_sending and self.watcher.waiting_bytes > MAX_UNSENT_BYTES:
            self.end(_RESYNC)

    async def _frames(self) -> None:
        if self._end is not None:  # the server shuts down
            return
        hub = self._service.hub
        after = self._topics.after if self._topics.lists is not None else None
        if after is not None and not await hub.catch_up(self.watcher, after):
            self.end(_RESYNC)
        # The position for a client that is disconnected before its first frame.
        await self._write(b"id: %b\n\n" % self._cursor(after or hub.cursor))
        while self._end is None:
            frame = await self._next_frame()
            if frame is not None and self._end is None:
                await self._write(frame)
                self.watcher.sent(len(frame))
                await asyncio.sleep(_FRAME_SECONDS)
            await self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_COMMENT_SECONDS):
                await self.watcher.woken.wait()
        except TimeoutError:
            await self._write(b": \n\n")

    async def _next_frame(self) -> bytes | None:
        watcher = self.watcher
        if self._trouble is not None:
            # The watcher stays woken: its changes are sent next.
            trouble, self._trouble = self._trouble, None
            return _named("unavailable", trouble)
        feed = self._service.hub.cursor
        runs, moved = watcher.take()
        grown = self.logs.take()
        try:
            events = await self._next_events(moved)
            logs = await self._next_pieces(grown)
        except RunNotFound as error:
            self.end(error.code, error.run_id)
            return None
        except (StoreUnavailable, ArtifactStoreUnavailable) as error:
            self._keep_for_later(runs, moved, grown)
            return _named("unavailable", EndBody(code=error.code))
        if watcher.gone:
            self.end(RunNotFound.code, min(watcher.gone))
        if not runs and not events and not logs:
            return None
        body = msgspec.json.encode(FrameBody(runs=tuple(map(RunBody.of, runs)), events=events, logs=logs))
        return b"id: %b\ndata: %b\n\n" % (self._cursor(feed), body)

    def _cursor(self, feed: str) -> bytes:
        return cursor(feed, self.watcher.seen, self.logs.seen).encode()

    def _keep_for_later(self, runs: Sequence[Run], moved: Sequence[RunId], grown: Sequence[LogTopic]) -> None:
        listed = {run.identity.run_id: run for run in runs}
        self.watcher.listed = listed | self.watcher.listed
        self.watcher.moved.update(moved)
        self.logs.moved.update(grown)
        self.watcher.woken.set()

    async def _next_events(self, moved: Sequence[RunId]) -> dict[str, msgspec.Raw]:
        """The next events of each run, until the frame is full. Runs with more are handled again."""
        found: dict[str, msgspec.Raw] = {}
        size = 0
        for run_id in moved:
            if size >= _MAX_FRAME_BYTES:
                self._look_again(run_id)
                continue
            encoded, last = await self._service.encoded_events(
                run_id, self.watcher.seen[run_id], _MAX_FRAME_BYTES
            )
            if encoded:
                found[run_id] = msgspec.Raw(encoded)
                size += len(encoded)
                self.watcher.seen[run_id] = last
                self._look_again(run_id)
        return found

    async def _next_pieces(self, grown: Sequence[LogTopic]) -> dict[str, LogPieceBody]:
        """The next bytes of each log. Logs with more are handled again."""
        found: dict[str, LogPieceBody] = {}
        for topic in grown:
            start = self.logs.seen[topic]
            content = await self._service.logs.read(topic, start, _MAX_PIECE_BYTES)
            piece = whole_characters(content)
            if piece:
                end = self.logs.seen[topic] = start + len(piece)
                found[topic.text] = LogPieceBody(start=start, end=end, text=piece.decode(errors="replace"))
            if len(content) == _MAX_PIECE_BYTES:
                self.logs.moved.add(topic)
                self.watcher.woken.set()
        return found

    def _look_again(self, run_id: RunId) -> None:
        self.watcher.moved.add(run_id)
        self.watcher.woken.set()

    async def _write(self, data: bytes) -> None:
        self._is_sending = True
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            self._is_sending = False


def whole_characters(content: bytes) -> bytes:
    """Without an incomplete character at its end, whose rest is not written yet."""
    for back in range(1, min(4, len(content) + 1)):
        byte = content[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return content[:-back] if length > back else content
    return content


def encode_events(records: Sequence[EventRecord], most: int) -> tuple[bytes, int]:
    """As many as fit, at least one, and the number of the last one."""
    parts: list[bytes] = []
    size, last = 0, 0
    for record in records:
        encoded = msgspec.json.encode(EventBody.of(record))
        if parts and size + len(encoded) > most:
            break
        parts.append(encoded)
        size, last = size + len(encoded), record.run_seq
    return (b"[" + b",".join(parts) + b"]" if parts else b""), last


def _named(event: str, body: EndBody) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(body))
