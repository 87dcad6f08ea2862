"""Many watchers of logs, one reader: a watched log is checked once a second, however many clients watch it.

A watcher holds no text. It knows how many bytes of each log it has, and reads the next ones when it can send
them.
"""

import asyncio
import contextlib
import logging
from contextvars import Context
from typing import Final, NamedTuple

from podium.errors import PodiumError, RunNotFound
from podium.log.ids import RunId
from podium.operations.parts import Parts
from podium.operations.run_logs import logs_of
from podium.operations.run_watching import RunWatcher
from podium.ports.logs import LogName, RunLogs

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5
# Removed runs are rare: their existence is checked only once in this many rounds.
_CHECK_RUNS_EVERY: Final = 4
# Cache for several clients, most of which read at the same position.
_MAX_PIECES: Final = 64


class LogTopic(NamedTuple):
    run_id: RunId
    log: LogName
    # As written by the client, without a position: the name of the log in its frames.
    text: str


class LogWatcher:
    """The logs that one client watches; `runs` is woken when there is something to send."""

    def __init__(self, logs: dict[LogTopic, int], runs: RunWatcher) -> None:
        # How many bytes of each log were sent.
        self.seen = logs
        self.moved: set[LogTopic] = set()
        self._runs = runs

    def look(self, topic: LogTopic, size: int, grown: int) -> None:
        if size < self.seen[topic]:
            # Restarted by a worker that has taken the run over.
            self.seen[topic] = 0
        if size > self.seen[topic]:
            self.moved.add(topic)
            self._runs.waiting_bytes += grown
            self._runs.woken.set()

    def note_removed(self, run_id: RunId) -> None:
        self._runs.gone.add(run_id)
        self._runs.woken.set()

    def take(self) -> list[LogTopic]:
        moved, self.moved = sorted(self.moved), set()
        return moved


class LogHub:
    """Checks logs while there are watchers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._watchers: dict[LogTopic, set[LogWatcher]] = {}
        self._runs: dict[RunId, RunLogs] = {}
        self._sizes: dict[LogTopic, int] = {}
        self._pieces: dict[tuple[LogTopic, int, int], bytes] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, watcher: LogWatcher) -> None:
        for topic in watcher.seen:
            self._watchers.setdefault(topic, set()).add(watcher)
            # Checked from here on: existing content is not new.
            self._sizes.pop(topic, None)
        if watcher.seen and self._task is None:
            # For all clients: its log lines are not about the first one's request.
            self._task = asyncio.create_task(self._look_for_ever(), context=Context())

    async def remove(self, watcher: LogWatcher) -> None:
        for topic in watcher.seen:
            watchers = self._watchers.get(topic, set())
            watchers.discard(watcher)
            if not watchers:
                self._watchers.pop(topic, None)
                self._sizes.pop(topic, None)
        if not self._watchers:
            await self.close()

    async def close(self) -> None:
        task, self._task = self._task, None
        self._runs.clear()
        self._pieces.clear()
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def read(self, topic: LogTopic, start: int, most: int) -> bytes:
        """Raises `RunNotFound`, and what the bucket raises."""
        key = (topic, start, most)
        found = self._pieces.get(key)
        if found is None:
            found = await (await self._logs(topic.run_id)).read(topic.log, start, most)
            if len(self._pieces) >= _MAX_PIECES:
                self._pieces.clear()
            self._pieces[key] = found
        return found

    async def _look_for_ever(self) -> None:
        rounds = 0
        while True:
            for topic in tuple(self._watchers):
                await self._try_to_look(topic)
            await asyncio.sleep(_LOOK_SECONDS)
            rounds += 1
            if rounds % _CHECK_RUNS_EVERY == 0:
                self._runs.clear()

    async def _try_to_look(self, topic: LogTopic) -> None:
        try:
            await self._look(topic)
        except RunNotFound:
            for watcher in self._watchers.get(topic, ()):
                watcher.note_removed(topic.run_id)
        except PodiumError as error:
            logger.warning("streams wait for logs: %s", error)

    async def _look(self, topic: LogTopic) -> None:
        found = await (await self._logs(topic.run_id)).find(topic.log)
        if found is None:
            return
        before = self._sizes.get(topic, found.size)
        self._sizes[topic] = found.size
        if before != found.size:
            # A piece may have been cut at the former end of the log.
            self._pieces.clear()
        for watcher in tuple(self._watchers.get(topic, ())):
            watcher.look(topic, found.size, max(0, found.size - before))

    async def _logs(self, run_id: RunId) -> RunLogs:
        logs = self._runs.get(run_id)
        if logs is None:
            logs = self._runs[run_id] = await logs_of(self._parts, await self._parts.store.get_run(run_id))
        return logs
