"""Makes commits durable, outside of the write lock.

SQLite could do it (`synchronous = FULL`): then it syncs its write-ahead log inside COMMIT, and a process that is
stopped meanwhile keeps all others from writing; most of the time that the lock is held would be the disk's. So the
writer commits with NORMAL, releases the lock, and syncs the log here, before anything is acknowledged.

Why that is as safe: a commit is in the log, or the log was started again since, and then it is in the database, which
SQLite syncs before. The log is the same file as long as the connection is open, since only the last connection removes
it. A sync covers all commits of all processes so far, so what follows from something that another process has not
synced yet, such as the answer to a repeated event, is synced together with it: every answer is preceded by a sync.
"""

import os
from collections.abc import Callable
from typing import Final

import apsw

_CHUNK: Final = 1024 * 1024


class WalSync:
    """The write-ahead log of the writer's connection. The descriptor is its own: SQLite locks other files only."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None
        # What was written may not be on the disk though nothing says so any more: the kernel reports a failure once.
        self._in_doubt = False
        self.fdatasync: Callable[[int], None] = os.fdatasync

    def attach(self, db: apsw.Connection) -> None:
        """A new connection writes to the log from here on. One whose log cannot be opened syncs it by itself."""
        db.execute("PRAGMA user_version").fetchall()  # makes SQLite open the log
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self.close()
            return
        db.execute("PRAGMA synchronous = NORMAL")
        self.close()
        self._file = file

    def sync(self) -> None:
        """Return when everything that is committed is durable."""
        if self._file is None:
            return
        try:
            self.fdatasync(self._file)
        except BaseException:
            self._in_doubt = True
            raise

    def repair(self) -> None:
        """In a write transaction, after a failed sync: write the log once more, so that the next sync includes it."""
        if self._in_doubt and self._file is not None:
            offset = 0
            while chunk := os.pread(self._file, _CHUNK, offset):
                os.pwrite(self._file, chunk, offset)
                offset += len(chunk)
            self._in_doubt = False

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
