"""Copies the logs of a run into segments of the bucket while its steps write them, so that every host can
show them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from podium.errors import PodiumError
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.ports.logs import LogName, Segments
from podium.runtime.log_files import LogFile, log_files, read_log_file
from podium.runtime.log_segments import SEGMENT_BYTES, SegmentKey, SegmentLogs

# Together with the pause between two rounds, this is the delay of a reader on another host.
SHIP_SECONDS: Final = 1.0
# How long an unresponsive bucket can delay a run that has ended or leaves its host.
_LAST_SECONDS: Final = 5.0
_LAST_PAUSE: Final = 0.5


class _Shipped(msgspec.Struct):
    """How much of a log is in the bucket."""

    inode: int
    restart: int
    size: int
    # Shipped completely under an earlier lease: further content would be a new log.
    is_earlier: bool = False


class LogShipper:
    """Ships the logs of one run on one host. `generation`: that of the lease under which its steps run."""

    def __init__(
        self, folder: Path, segments: Callable[[], Awaitable[Segments]], generation: int, *, is_new: bool
    ) -> None:
        """`is_new`: the run has not run before, so the bucket has nothing of it."""
        self._folder = folder
        self._open_segments = segments
        self._generation = generation
        self._has_looked = is_new
        self._shipped: dict[LogName, _Shipped] = {}
        # Two concurrent rounds would write segments out of order.
        self._turn = asyncio.Lock()

    async def ship(self) -> None:
        """Ship what was written since the last call. Raises `ArtifactStoreUnavailable`."""
        async with self._turn:
            files = await asyncio.to_thread(lambda: list(log_files(self._folder)))
            changed = [file for file in files if self._is_changed(file)]
            if not changed:
                return
            segments = await self._open_segments()
            if not self._has_looked:
                await self._look(files, segments)
            for file in changed:
                if self._is_changed(file):
                    await self._ship(file, segments)

    async def finish(self) -> PodiumError | None:
        """Ship the rest when the run leaves this host; returns the error if that failed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _LAST_SECONDS
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await self.ship()
                return None
            except (PodiumError, OSError, TimeoutError) as error:
                if loop.time() + _LAST_PAUSE >= until:
                    return error if isinstance(error, PodiumError) else ArtifactStoreUnavailable(str(error))
            await asyncio.sleep(_LAST_PAUSE)

    def _is_changed(self, file: LogFile) -> bool:
        known = self._shipped.get(file.log.name)
        return known is None or known.inode != file.inode or known.size != file.log.size

    async def _look(self, files: list[LogFile], segments: Segments) -> None:
        """Find out what an earlier host, or this one before it was stopped, has copied already."""
        copied = {log.name: log.size for log in await SegmentLogs(segments).list()}
        for file in files:
            name, size = file.log.name, file.log.size
            if copied.get(name) == size:
                self._shipped[name] = _Shipped(file.inode, 0, size, is_earlier=True)
        self._has_looked = True

    async def _ship(self, file: LogFile, segments: Segments) -> None:
        name = file.log.name
        known = self._continued(file)
        while known.size < file.log.size:
            number = known.size // SEGMENT_BYTES
            start = number * SEGMENT_BYTES
            content = await asyncio.to_thread(
                read_log_file, file.path, start, min(file.log.size - start, SEGMENT_BYTES)
            )
            if start + len(content) <= known.size:
                return  # truncated since it was listed
            key = SegmentKey(name, self._generation, known.restart, number)
            await segments.put(key.text(), content)
            known.size = start + len(content)

    def _continued(self, file: LogFile) -> _Shipped:
        known = self._shipped.get(file.log.name)
        if known is None or known.is_earlier:
            known = self._shipped[file.log.name] = _Shipped(file.inode, 0, 0)
        elif known.inode != file.inode or file.log.size < known.size:
            known = self._shipped[file.log.name] = _Shipped(file.inode, known.restart + 1, 0)
        return known
