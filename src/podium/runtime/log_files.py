"""Logs as files in the directory of a run, on the host where its steps run."""

import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from podium.files import open_regular
from podium.ports.logs import LogName, RunLogs, StoredLog

# The output of a step and its errors; for an agent, its progress and its answer. Prompts and sessions are not
# logs.
KINDS: Final = frozenset({"out", "err", "progress", "txt"})


class LogFile(NamedTuple):
    log: StoredLog
    path: Path
    # A file with the same name and another inode was rewritten from its start.
    inode: int


def log_files(folder: Path) -> Iterator[LogFile]:
    """Blocks. A step may have created a link here; its target does not belong to the run."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            name = log_name(entry.name)
            if name is not None and entry.is_file(follow_symlinks=False):
                state = entry.stat(follow_symlinks=False)
                log = StoredLog(name, state.st_size, state.st_mtime)
                yield LogFile(log, Path(entry.path), state.st_ino)


def log_name(file: str) -> LogName | None:
    """The log's name for a file name; None for a file that is not a log."""
    name, _, kind = file.rpartition(".")
    step, _, attempt = name.rpartition(".")
    if kind not in KINDS or not (attempt.isascii() and attempt.isdecimal()):
        return None
    return LogName(step, int(attempt), kind)


def read_log_file(path: Path, start: int, most: int) -> bytes:
    """Blocks."""
    with open_regular(path, what="the output of a step") as opened:
        opened.seek(start)
        return opened.read(most)


class FileLogs(RunLogs):
    """`folder`: the directory of the run's logs; it need not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def list(self) -> Sequence[StoredLog]:
        return await asyncio.to_thread(lambda: sorted(file.log for file in log_files(self._folder)))

    async def find(self, name: LogName) -> StoredLog | None:
        return await asyncio.to_thread(self._find, name)

    async def read(self, name: LogName, start: int, most: int) -> bytes:
        if await self.find(name) is None:
            return b""
        return await asyncio.to_thread(read_log_file, self._folder / _file(name), start, most)

    def _find(self, name: LogName) -> StoredLog | None:
        file = _file(name)
        # A name with a path in it is not the name of a log.
        if "/" in file or log_name(file) != name:
            return None
        try:
            state = (self._folder / file).lstat()
        except OSError:
            return None
        return StoredLog(name, state.st_size, state.st_mtime) if stat.S_ISREG(state.st_mode) else None


def _file(name: LogName) -> str:
    return f"{name.step}.{name.attempt}.{name.kind}"


class MergedLogs(RunLogs):
    """The logs of a bucket, and those that only this host has, written before a bucket was configured."""

    def __init__(self, shared: RunLogs, local: RunLogs) -> None:
        self._shared = shared
        self._local = local
        # Where each log was last found.
        self._places: dict[LogName, RunLogs] = {}

    async def list(self) -> Sequence[StoredLog]:
        local = {log.name: log for log in await self._local.list()}
        shared = {log.name: log for log in await self._shared.list()}
        self._places = dict.fromkeys(local, self._local) | dict.fromkeys(shared, self._shared)
        return sorted((local | shared).values())

    async def find(self, name: LogName) -> StoredLog | None:
        for place in (self._shared, self._local):
            if (found := await place.find(name)) is not None:
                self._places[name] = place
                return found
        return None

    async def read(self, name: LogName, start: int, most: int) -> bytes:
        if name not in self._places:
            await self.find(name)
        place = self._places.get(name)
        return await place.read(name, start, most) if place is not None else b""
