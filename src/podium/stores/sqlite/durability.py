"""Makes commits durable, outside of the write lock.

SQLite could do it (`synchronous = FULL`): then it syncs its write-ahead log inside COMMIT, and a process that
is stopped at that point prevents all others from writing; the lock would be held for disk I/O most of the
time. So the writer commits with NORMAL, releases the lock, and syncs the log here, before anything is
acknowledged.

Why that is equally safe: a commit is in the log, or the log was restarted since, and then it is in the
database, which SQLite syncs before. The log is the same file as long as the connection is open, since only
the last connection removes it. A sync covers all commits of all processes so far, so anything based on what
another process has not synced yet, such as the answer to a repeated event, is synced together with it: every
answer is preceded by a sync.
"""

import os
from collections.abc import Callable
from typing import Final

import apsw

_CHUNK: Final = 1024 * 1024


class WalSync:
    """The write-ahead log of the writer's connection. It has a file descriptor of its own: SQLite locks other
    files only.
    """

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None
        # Earlier writes may not be on disk although the kernel no longer reports it: it reports a failure
        # only once.
        self._in_doubt = False
        self.fdatasync: Callable[[int], None] = os.fdatasync

    def attach(self, db: apsw.Connection) -> None:
        """Called for a new connection, which writes to this log. If its log cannot be opened, the connection
        syncs by itself.
        """
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
        """In a write transaction after a failed sync: write the log once more, so that the next sync includes
        it.
        """
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
