"""A bus in a file: one JSON object per line, for `tail -f` and for programs that read files."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from podium.files import FileNotUsable
from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord


class JsonLinesBus:
    """Appends to a file. A line is written completely and flushed to disk before the event counts as
    delivered.
    """

    def __init__(self, path: Path, name: str = "jsonl") -> None:
        self.name = name
        self._path = path

    def check(self) -> None:
        """Raises `FileNotUsable` and OSError: permanent errors are detected before the first event."""
        if self._path.exists() and not self._path.is_file():
            raise FileNotUsable(f"{str(self._path)!r} is not a regular file; name a file to append events to")
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))

    async def publish(self, records: Sequence[EventRecord]) -> int:
        lines = b"".join(encode_envelope(record) + b"\n" for record in records)
        await asyncio.to_thread(append_lines, self._path, lines)
        return len(records)

    async def close(self) -> None:
        pass


def append_lines(path: Path, lines: bytes) -> None:
    """Append complete lines to a file and flush them to disk. After an error some may have been written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        _end_torn_line(path, descriptor)
        # O_APPEND: several processes may write to one file without interleaving their lines.
        written = os.write(descriptor, lines)
        if written != len(lines):
            raise OSError(f"only {written} of {len(lines)} bytes could be written to {path}")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _end_torn_line(path: Path, descriptor: int) -> None:
    """A crash may have left a partial line: it is ended, so that the next event is on a line of its own."""
    size = os.fstat(descriptor).st_size
    if size:
        with path.open("rb") as file:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                os.write(descriptor, b"\n")
