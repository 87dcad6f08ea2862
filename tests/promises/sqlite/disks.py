"""Disks that fail: VFS shims between SQLite and the file system.

`FailingDisk` refuses one write, sync or truncation, or all from one on. `PowerlessDisk` remembers what was synced, and
can show at any moment what a disk might hold if the power went now: all that was synced, and of what was written since,
any part of any write, in any order.
"""

import random
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

from podium.stores.sqlite import SqliteStore

# Every few commits the log of writes is taken up into the file, so that faults and cuts hit that, too.
PAGES_BETWEEN_CHECKPOINTS = 12


async def open_on(disk: str, path: Path, synchronous: str = "FULL") -> SqliteStore:
    store = await SqliteStore.open(path, vfs=disk, synchronous=synchronous)
    store._writer.checkpoint_pages = PAGES_BETWEEN_CHECKPOINTS
    store._writer._wal.fdatasync = _DISKS[disk].fdatasync
    return store


_DISKS: "dict[str, _Disk]" = {}


class _Disk(apsw.VFS):
    """Asks `change` before every change of a file; syncs are counted and never reach the real disk."""

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """Instead of printing an error that nobody can be handed: SQLite was told by its return code."""
        return True

    def __init__(self, name: str) -> None:
        self.vfs_name = name
        _DISKS[name] = self
        super().__init__(name, "", maxpathname=0)

    def xOpen(self, name: Any, flags: list[int]) -> "_File":  # noqa: N802
        file = _File(self, name, flags)
        self.opened(file.path)
        return file

    def opened(self, path: str) -> None: ...

    def fdatasync(self, file: int) -> None:
        """Stands in for `os.fdatasync`: the store syncs the write-ahead log by itself."""
        self.change(str(Path(f"/proc/self/fd/{file}").readlink()), "sync", 0, b"")

    def change(self, path: str, kind: str, offset: int, data: bytes) -> bytes | None:
        """Returns how much of a write to carry out, or raises after carrying out that much."""
        return data


class _File(apsw.VFSFile):
    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """Instead of printing an error that nobody can be handed: SQLite was told by its return code."""
        return True

    def __init__(self, disk: _Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else str(name or "")
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        data = bytes(data)
        try:
            self._disk.change(self.path, "write", offset, data)
        except ShortWrite:
            super().xWrite(data[: len(data) // 2], offset)
            raise
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.change(self.path, "sync", 0, b"")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.change(self.path, "truncate", newsize, b"")
        super().xTruncate(newsize)


class ShortWrite(apsw.IOError):
    """Half of the bytes are written before the disk fails."""


class FailingDisk(_Disk):
    def __init__(self, name: str, error: Callable[[], Exception], *, at: int, for_good: bool = False) -> None:
        self._error = error
        self._at = at
        self._for_good = for_good
        self.changes = 0
        self.failed = 0
        super().__init__(name)

    def fail_from(self, place: int) -> None:
        self._at = place

    def repair(self) -> None:
        self._at = -1

    def change(self, path: str, kind: str, offset: int, data: bytes) -> bytes | None:
        self.changes += 1
        if self._at >= 0 and (self.changes == self._at or (self._for_good and self.changes > self._at)):
            self.failed += 1
            raise self._error()
        return data


class CountingDisk(_Disk):
    """How much was written, and how often it was synced."""

    def __init__(self, name: str) -> None:
        self.written = 0
        self.syncs = 0
        super().__init__(name)

    def change(self, path: str, kind: str, offset: int, data: bytes) -> bytes | None:
        self.written += len(data)
        self.syncs += kind == "sync"
        return data


class PowerlessDisk(_Disk):
    def __init__(self, name: str) -> None:
        self._synced: dict[str, bytearray] = {}
        self._since: dict[str, list[tuple[str, int, bytes]]] = {}
        super().__init__(name)

    def before_sync(self) -> None:
        """What was written so far is not safe yet."""

    def opened(self, path: str) -> None:
        if path and path not in self._synced:
            self._synced[path] = bytearray(Path(path).read_bytes())
            self._since[path] = []

    def change(self, path: str, kind: str, offset: int, data: bytes) -> bytes | None:
        if kind == "sync":
            self.before_sync()
            for change in self._since[path]:
                _carry_out(self._synced[path], *change)
            self._since[path].clear()
        else:
            self._since[path].append((kind, offset, data))
        return data

    def cut(self, folder: Path, chance: random.Random) -> None:
        """Put into a folder what might be left if the power went now."""
        survive = chance.choice((0.0, 0.5, 0.9))
        for path, synced in self._synced.items():
            if not Path(path).exists():
                continue
            left = bytearray(synced)
            for kind, offset, data in self._since[path]:
                if chance.random() < survive:
                    torn = data[: chance.randrange(len(data) + 1)] if chance.random() < 0.2 else data
                    _carry_out(left, kind, offset, torn)
            (folder / Path(path).name).write_bytes(left)


def _carry_out(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "truncate":
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
