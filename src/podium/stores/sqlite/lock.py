"""Fair write lock among processes.

SQLite lets one process write at a time, but waiting processes only poll: with four writers some wait for
seconds. The kernel wakes a waiter immediately, so a separate lock, in a file beside the database, is taken
before every write transaction.

The lock has a gate. A process that waits for the lock holds the gate, and no other gets past it; otherwise a
process that has just written would take the lock again before the process it woke gets to run.

The locks belong to the open file, not to the process, so two stores in one process exclude each other, too;
they are released when the process ends, however it ends.
"""

import fcntl
import os
import struct
import time
from pathlib import Path
from typing import Final

# Which bytes of the file are locked: first and number. Nothing is ever written there.
_LOCK: Final = (0, 1)
_GATE: Final = (1, 1)
_BOTH: Final = (0, 2)

_LOOK_AGAIN: Final = 0.002


def _request(kind: int, bytes_locked: tuple[int, int]) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, *bytes_locked, 0)


_TAKE: Final = {place: _request(fcntl.F_WRLCK, place) for place in (_LOCK, _GATE, _BOTH)}
_GIVE: Final = {place: _request(fcntl.F_UNLCK, place) for place in (_LOCK, _GATE)}


class FileLock:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def try_take(self) -> bool:
        """Take it if it is free and no other process waits for it."""
        if not self._try(_BOTH):
            return False
        self._give(_GATE)
        return True

    def take_within(self, seconds: float) -> bool:
        """Wait for it, at most this long; after that, nothing of the wait remains, unlike a thread blocked in
        the kernel.
        """
        deadline = time.monotonic() + seconds
        if not self._try_until(deadline, _GATE):
            return False
        try:
            return self._try_until(deadline, _LOCK)
        finally:
            self._give(_GATE)

    def take(self) -> None:
        """Wait for it, however long that takes."""
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLKW, _TAKE[_GATE])
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLKW, _TAKE[_LOCK])
        finally:
            self._give(_GATE)

    def release(self) -> None:
        self._give(_LOCK)

    def close(self) -> None:
        os.close(self._file)

    def _try_until(self, deadline: float, place: tuple[int, int]) -> bool:
        while not self._try(place):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_AGAIN)
        return True

    def _try(self, place: tuple[int, int]) -> bool:
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _TAKE[place])
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _give(self, place: tuple[int, int]) -> None:
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _GIVE[place])
