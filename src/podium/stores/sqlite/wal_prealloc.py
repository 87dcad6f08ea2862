"""Room in the write-ahead log, made before it is needed.

A commit that makes a file longer waits for the file system's own journal, too: that costs several times as much as one
that overwrites what is there. SQLite starts with an empty log, lets it grow with every commit, and removes it when the
last process closes the file; so every short run would pay for it. A log may be longer than what is in it: what follows
the last commit is not looked at. So zeros are put behind it now and then, as much again as it has, until it has its
usual size.
"""

import contextlib
import os
from typing import Final

import apsw

_PAGE: Final = 4096
_FRAME: Final = _PAGE + 24
_FIRST: Final = 64 * _FRAME
# A little more than SQLite lets it grow to before it starts again at the front.
_USUAL: Final = 1100 * _FRAME
# How many pages one transaction is expected to write at most; a larger one makes the file longer itself.
_MARGIN: Final = 12
_ZEROS: Final = bytes(64 * 1024)


class WalRoom:
    """The room in the log of one connection's database."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        # How many pages the connection has written when it is time to look again.
        self._look_at = 0

    def make(self, db: apsw.Connection) -> None:
        """Within a write transaction: nobody else makes the file longer meanwhile."""
        written = db.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        if written >= self._look_at:
            self._look_at = written + self._extend()

    def _extend(self) -> int:
        """Returns after how many pages it is to be looked at again."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # a database of another kind: in memory, on another file system of SQLite's
            return _USUAL // _FRAME
        try:
            size = os.fstat(file).st_size
            wanted = min(max(2 * size, _FIRST), _USUAL)
            if wanted <= size:
                return _USUAL // _FRAME
            try:
                _put_zeros(file, size, wanted)
            except OSError:
                # The disk is full: what is left of it is for what is to be kept.
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)
                return _USUAL // _FRAME
            return (wanted - size) // _FRAME - _MARGIN
        finally:
            os.close(file)


def _put_zeros(file: int, start: int, end: int) -> None:
    # The same few again and again: to read as many as are written, from memory never touched before, takes far longer.
    whole, rest = divmod(end - start, len(_ZEROS))
    os.pwritev(file, [*[_ZEROS] * whole, _ZEROS[:rest]], start)
