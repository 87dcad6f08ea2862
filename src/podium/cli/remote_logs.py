"""The output of a run's steps on a server, for `podium logs`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

from podium.client import calls
from podium.log.times import moment
from podium.log.transitions import TERMINAL
from podium.operations.log_views import STREAM_OF, STREAMS
from podium.operations.logs import LogPart, new_parts
from podium.ports.logs import LogName, StoredLog

if TYPE_CHECKING:
    from podium.client import Client

_LOOK_SECONDS: Final = 0.5


async def remote_logs(
    client: "Client", run_id: str, step: str | None, *, raw: bool, follow: bool
) -> AsyncIterator[LogPart]:
    """The output of all steps, or of one; with `follow` until the run has ended."""
    logs, seen = _ServerLogs(client, run_id, step), dict[LogName, int]()
    while True:
        is_last = not follow or client.run(run_id).run.status in TERMINAL
        for part in new_parts(logs, await logs.list(), step, seen, raw=raw):
            yield part
        if is_last:
            return
        await asyncio.sleep(_LOOK_SECONDS)


class _ServerLogs:
    """A `RunLogs`. It blocks: the command has nothing else to do."""

    def __init__(self, client: "Client", run_id: str, step: str | None) -> None:
        self._client = client
        self._run_id = run_id
        self._step = step
        # The server returns more than one piece.
        self._rest: tuple[LogName, int, bytes] | None = None

    async def list(self) -> Sequence[StoredLog]:
        return [
            StoredLog(
                LogName(one.step, one.attempt, STREAMS[one.stream]),
                one.size_bytes,
                moment(one.modified_at).timestamp(),
            )
            for one in self._client.logs(self._run_id, step=self._step)
            if one.stream in STREAMS
        ]

    async def find(self, name: LogName) -> StoredLog | None:
        return next((one for one in await self.list() if one.name == name), None)

    async def read(self, name: LogName, start: int, most: int) -> bytes:
        content = self._rest[2] if self._rest is not None and self._rest[:2] == (name, start) else b""
        if not content:
            stream = _stream(STREAM_OF[name.kind])
            content = self._client.log(self._run_id, name.step, name.attempt, stream, after=start)
        self._rest = (name, start + most, content[most:])
        return content[:most]


def _stream(name: str) -> calls.Stream:
    found: Literal["out", "err", "progress", "answer"]
    for found in ("out", "err", "progress", "answer"):
        if found == name:
            return found
    raise KeyError(name)
