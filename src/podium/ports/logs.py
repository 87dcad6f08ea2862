"""The output of a run's steps, wherever they ran.

A log is append-only. It is a file in the directory of its run, on the host of the step; if a bucket is
configured, its content is also stored there in segments, so that every host can show it while the step runs.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class LogName(NamedTuple):
    """`step`: as in its file name, where a slash of the path is `~`. `kind`: `out`, `err`, `progress` or
    `txt`.
    """

    step: str
    attempt: int
    kind: str


class StoredLog(NamedTuple):
    name: LogName
    size: int
    # When it was last written: seconds since 1970, by the clock of its storage.
    modified: float


class RunLogs(Protocol):
    """The logs of one run, for reading."""

    async def list(self) -> Sequence[StoredLog]:
        """Ordered by name."""
        ...

    async def find(self, name: LogName) -> StoredLog | None:
        """One of them, without listing the others."""
        ...

    async def read(self, name: LogName, start: int, most: int) -> bytes:
        """Bytes from `start` on; empty after its end, or if there is no such log."""
        ...


class Segment(NamedTuple):
    name: str
    size: int
    modified: float


class Segments(Protocol):
    """Pieces of logs below one prefix, each replaced as a whole. All calls raise `ArtifactStoreUnavailable`.

    Names have letters, digits, `-`, `_`, `.` and slashes.
    """

    async def put(self, name: str, content: bytes) -> None:
        """Readers see either the previous segment or all of the new one."""
        ...

    async def read(self, name: str, start: int, end: int) -> bytes:
        """Up to `end`, or what exists; empty if it was removed."""
        ...

    async def list(self, folder: str = "") -> Sequence[Segment]:
        """All segments, or those below a folder, in no particular order."""
        ...
