"""Opens the file, and translates its errors into messages that say what to do."""

import errno
from pathlib import Path
from typing import Final

import apsw
import msgspec

from podium.errors import PodiumError, StoreUnavailable, StoreVersion

# For readers: short waits occur while another process opens or closes the file.
_READERS_WAIT_MS: Final = 5000
# Per connection. The cache fills up and is kept: a larger one takes memory from a process that runs for
# weeks, and saves little time (4 MiB: 3 %), because the system caches the pages of the file as well.
_CACHE_KIB: Final = 1024
# After a burst the write-ahead log is truncated to this size.
_WAL_KEPT_BYTES: Final = 16 * 1024 * 1024


class Database(msgspec.Struct, frozen=True):
    """The location of the file and how to open it. All fields but the path are for tests."""

    path: Path
    vfs: str | None = None
    # FULL: a commit is on disk before it is acknowledged (the writer syncs by itself, see `durability.py`).
    # Anything less loses acknowledged events in a power failure.
    synchronous: str = "FULL"

    def connect(self, *, busy_timeout_ms: int = _READERS_WAIT_MS) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), vfs=self.vfs)
        try:
            connection.set_busy_timeout(busy_timeout_ms)
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        except apsw.Error:
            connection.close()
            raise
        return connection

    def not_durable(self, error: OSError | apsw.Error) -> PodiumError:
        """The error for a commit whose sync has failed."""
        if isinstance(error, apsw.Error):
            return self.translate_error(error)
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = dict(_ADVICE)[apsw.FullError if is_full else apsw.IOError]
        return StoreUnavailable(f"{self.path}: {error}; it is unknown whether this is stored; {advice}")

    def translate_error(self, error: apsw.Error) -> PodiumError:
        """The error with what happened and what to do next; an error that only a defect can cause is raised
        unchanged.
        """
        for kind, advice in _ADVICE:
            if isinstance(error, kind):
                return StoreUnavailable(f"{self.path}: {error}; {advice}")
        if isinstance(error, apsw.NotADBError):
            return StoreVersion(
                f"{self.path} is not an SQLite database: choose another path with --store, "
                "or restore a backup if this was a store"
            )
        raise error


_ADVICE: Final[tuple[tuple[type[apsw.Error], str], ...]] = (
    (apsw.FullError, "the disk is full: free some space, then try again"),
    (
        apsw.ReadOnlyError,
        "it cannot be written: check the modes of its directory, and of the files beside it that share its name",
    ),
    (apsw.CantOpenError, "the file cannot be opened: check that its directory exists and can be written"),
    (apsw.BusyError, "another program keeps it locked: end that program's transaction, then try again"),
    (apsw.LockedError, "another program keeps it locked: end that program's transaction, then try again"),
    (apsw.CorruptError, "the file is damaged: run `podium store check`, and restore a backup"),
    (apsw.IOError, "the disk does not answer as it should: check the system log, then try again"),
    (apsw.InterruptError, "the store is being closed"),
    (apsw.NoMemError, "there is not enough memory: free some, then try again"),
)
