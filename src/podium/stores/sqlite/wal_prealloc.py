"""Preallocates space in the write-ahead log.

A commit that makes a file longer also waits for the file system's own journal: that costs several times as
much as one that overwrites existing blocks. SQLite starts with an empty log, lets it grow with every commit,
and removes it when the last process closes the file; so every short run would pay for it. A log may be longer
than its content: what follows the last commit is ignored. So zeros are appended to it repeatedly, as many
bytes as it has, until it has its usual size.
"""

import contextlib
import os
from typing import Final

import apsw

_PAGE: Final = 4096
_FRAME: Final = _PAGE + 24
_FIRST: Final = 64 * _FRAME
# A little more than the size at which SQLite starts again at the front.
_USUAL: Final = 1100 * _FRAME
# The expected maximum number of pages in one transaction; a larger one extends the file itself.
_MARGIN: Final = 12
_ZEROS: Final = bytes(64 * 1024)


class WalRoom:
    """The preallocated space in the log of one connection's database."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        # The number of written pages at which the next check is due.
        self._look_at = 0

    def make(self, db: apsw.Connection) -> None:
        """Called within a write transaction: no other process extends the file."""
        written = db.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        if written >= self._look_at:
            self._look_at = written + self._extend()

    def _extend(self) -> int:
        """Returns the number of pages after which the next check is due."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # a database of another kind: in memory, or on one of SQLite's other file systems
            return _USUAL // _FRAME
        try:
            size = os.fstat(file).st_size
            wanted = min(max(2 * size, _FIRST), _USUAL)
            if wanted <= size:
                return _USUAL // _FRAME
            try:
                _put_zeros(file, size, wanted)
            except OSError:
                # The disk is full: leave the remaining space to the data.
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)
                return _USUAL // _FRAME
            return (wanted - size) // _FRAME - _MARGIN
        finally:
            os.close(file)


def _put_zeros(file: int, start: int, end: int) -> None:
    # The same few zeros repeatedly: reading as much new memory as is written would take far longer.
    whole, rest = divmod(end - start, len(_ZEROS))
    os.pwritev(file, [*[_ZEROS] * whole, _ZEROS[:rest]], start)
