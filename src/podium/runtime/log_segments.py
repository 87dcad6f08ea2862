"""Logs in segments of a bucket: how they are named, and how they are read.

    <step>.<attempt>.<kind>/<generation>.<restart>.<number>

A segment holds up to 256 KiB: the last one is replaced by a longer one until it is full. So a log has few
segments, whatever its writer does, and each of them is written a bounded number of times. The generation is
that of the lease under which the log was written: when a run is taken over and an attempt is executed again,
its log starts again, and readers see the newest one only. The name of the step is encoded, because some
object stores do not allow all characters.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

from podium.ports.logs import LogName, RunLogs, Segment, Segments, StoredLog

SEGMENT_BYTES: Final = 256 << 10


class SegmentKey(NamedTuple):
    log: LogName
    generation: int
    # How often the log was restarted under this lease.
    restart: int
    number: int

    def text(self) -> str:
        return f"{folder_of(self.log)}/{self.generation:010d}.{self.restart:04d}.{self.number:08d}"

    @property
    def version(self) -> tuple[int, int]:
        return self.generation, self.restart


def folder_of(log: LogName) -> str:
    step = urlsafe_b64encode(log.step.encode()).decode().rstrip("=")
    return f"{step}.{log.attempt}.{log.kind}"


def parse_key(text: str) -> SegmentKey | None:
    """None for an object that is not a segment."""
    try:
        log, _, rest = text.partition("/")
        step, attempt, kind = log.split(".")
        generation, restart, number = map(int, rest.split("."))
        name = urlsafe_b64decode(step + "=" * (-len(step) % 4)).decode()
        key = SegmentKey(LogName(name, int(attempt), kind), generation, restart, number)
    except ValueError:
        return None
    return key if key.text() == text else None


class _Version:
    """What was written of one log under one lease."""

    def __init__(self, key: SegmentKey) -> None:
        self.key = key
        self.sizes: dict[int, int] = {}
        self.modified = 0.0

    def add(self, number: int, segment: Segment) -> None:
        self.sizes[number] = segment.size
        self.modified = max(self.modified, segment.modified)

    def log(self) -> StoredLog:
        return StoredLog(self.key.log, self.size, self.modified)

    @property
    def size(self) -> int:
        """The size up to the first gap: segments are written in order, but listed in any order."""
        number = 0
        while self.sizes.get(number) == SEGMENT_BYTES:
            number += 1
        return number * SEGMENT_BYTES + self.sizes.get(number, 0)


class SegmentLogs(RunLogs):
    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        # The last listing: a log is listed before it is read.
        self._versions: dict[LogName, _Version] = {}

    async def list(self) -> Sequence[StoredLog]:
        self._versions = _newest(await self._segments.list())
        return [self._versions[name].log() for name in sorted(self._versions)]

    async def find(self, name: LogName) -> StoredLog | None:
        found = _newest(await self._segments.list(folder_of(name)))
        self._versions |= found
        return found[name].log() if name in found else None

    async def read(self, name: LogName, start: int, most: int) -> bytes:
        if name not in self._versions:
            await self.find(name)
        version = self._versions.get(name)
        if version is None:
            return b""
        end = min(start + most, version.size)
        pieces = []
        while start < end:
            number, offset = divmod(start, SEGMENT_BYTES)
            until = min(end - number * SEGMENT_BYTES, SEGMENT_BYTES)
            piece = await self._segments.read(version.key._replace(number=number).text(), offset, until)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)


def _newest(segments: Sequence[Segment]) -> dict[LogName, _Version]:
    found: dict[LogName, _Version] = {}
    for segment in segments:
        key = parse_key(segment.name)
        if key is None:
            continue
        known = found.get(key.log)
        if known is None or known.key.version < key.version:
            known = found[key.log] = _Version(key)
        if known.key.version == key.version:
            known.add(key.number, segment)
    return found
