"""A bus in a folder: one file of JSON lines per topic, for tests and for a machine without a broker.

A line is `{"key": .., "headers": {..}, "value": ..}`; a value that is not JSON is `base64` instead. The
offset of a message is the number of its line, so lines are only ever appended. The positions of groups are in
`.groups`; one member of a group reads a topic at a time, the next one takes over when it ends.
"""

import asyncio
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from shlex import quote
from typing import Any, Final

import msgspec

from podium.buses.dead_letters import dead_headers
from podium.buses.jsonl import append_lines
from podium.files import FileNotUsable
from podium.log.events import EventRecord
from podium.log.messages import DEAD_SUFFIX, Message, event_message, published_messages
from podium.ports.bus import TopicRefused
from podium.ports.events_in import Incoming

_WAIT_SECONDS: Final = 0.2
_READ_BYTES: Final = 4 * 1024 * 1024


_NO_VALUE: Final = msgspec.Raw()


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    key: str | None = None
    headers: dict[str, str] = {}
    value: msgspec.Raw = _NO_VALUE
    base64: str | None = None


class JsonTopicsBus:
    """Appends to the files of a folder. Events are written to `topic`, what steps publish to the topics that
    they name.
    """

    def __init__(self, folder: Path, name: str, topic: str | None = None) -> None:
        self.name = name
        self._folder = folder
        self._topic = topic

    def check(self) -> None:
        """Raises `FileNotUsable` and OSError: permanent errors are detected before the first event."""
        check_folder(self._folder)

    async def publish(self, records: Sequence[EventRecord]) -> int:
        await asyncio.to_thread(self._write, records)
        return len(records)

    def _write(self, records: Sequence[EventRecord]) -> None:
        lines: dict[str, list[bytes]] = {}
        for record in records:
            own = [event_message(record, self._topic)] if self._topic is not None else []
            for message in [*own, *published_messages(record)]:
                lines.setdefault(message.topic, []).append(_encode(message))
        for topic, found in lines.items():
            append_lines(_file_of(self._folder, topic), b"".join(found))

    async def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            path = _file_of(self._folder, message.topic)
            await asyncio.to_thread(append_lines, path, _encode(message))

    async def close(self) -> None:
        pass


class JsonTopicsSource:
    """A member of a group that reads the file of one topic."""

    def __init__(self, folder: Path, topic: str, group: str) -> None:
        self.name = f"jsonl:{folder}/{topic}"
        self._folder = folder
        self._topic = topic
        self._place = folder / ".groups" / group / topic
        self._lock: int | None = None
        self._next = (0, 0)
        # The start of the line after each one that was handed out.
        self._ends: dict[int, int] = {}

    async def open(self) -> None:
        check_folder(self._folder)
        if not _file_of(self._folder, self._topic).is_file():
            raise TopicRefused(
                f"topic {self._topic!r} does not exist: {_file_of(self._folder, self._topic)} is not a file; create it"
            )
        self._place.parent.mkdir(parents=True, exist_ok=True)

    async def receive(self, limit: int) -> Sequence[Incoming]:
        found = await asyncio.to_thread(self._read, limit) if self._take_turn() else []
        if not found:
            await asyncio.sleep(_WAIT_SECONDS)
        return found

    def _take_turn(self) -> bool:
        if self._lock is None:
            lock = os.open(f"{self._place}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except OSError:
                os.close(lock)
                return False
            self._lock = lock
            self._next = self._committed()
        return True

    def _committed(self) -> tuple[int, int]:
        try:
            line, start = self._place.read_text().split()
        except FileNotFoundError:
            return 0, 0
        return int(line), int(start)

    def _read(self, limit: int) -> list[Incoming]:
        number, start = self._next
        with _file_of(self._folder, self._topic).open("rb") as file:
            file.seek(start)
            content = file.read(_READ_BYTES)
            if b"\n" not in content:
                content += file.readline()  # of any length, because the next line must be read, too
        found = []
        # What follows the last line end is still being written: it is read when it is complete.
        for line in content.split(b"\n")[:-1][:limit]:
            start += len(line) + 1
            if line.strip():
                found.append(_decode(self._topic, number, line))
            self._ends[number] = start
            number += 1
        self._next = (number, start)
        return found

    async def commit(self, messages: Sequence[Incoming]) -> None:
        if not messages or self._lock is None:
            return
        last = max(one.offset for one in messages)
        await asyncio.to_thread(self._write_committed, last + 1, self._ends[last])
        self._ends = {number: end for number, end in self._ends.items() if number > last}

    def _write_committed(self, line: int, start: int) -> None:
        new = self._place.with_name(f"{self._place.name}.new")
        with new.open("w") as file:
            file.write(f"{line} {start}")
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._place)

    async def lag(self) -> int | None:
        return await asyncio.to_thread(self._count_waiting)

    def _count_waiting(self) -> int:
        _line, start = self._committed()
        with _file_of(self._folder, self._topic).open("rb") as file:
            file.seek(start)
            return sum(1 for line in file if line.endswith(b"\n"))

    async def bury(self, message: Incoming, code: str) -> None:
        headers = (*message.headers, *dead_headers(message, code))
        dead = (self._topic + DEAD_SUFFIX, message.key, headers, message.value)
        await asyncio.to_thread(append_message, self._folder, *dead)

    async def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class JsonTopics:
    """The files of a folder as `Topics`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def missing(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if not _file_of(self._folder, name).is_file()]

    async def create(self, names: Sequence[str]) -> None:
        check_folder(self._folder)
        for name in names:
            _file_of(self._folder, name).touch(mode=0o600)

    def how_to_create(self, name: str) -> str:
        file = _file_of(self._folder, name)
        return f"mkdir -p {quote(str(file.parent))} && touch {quote(str(file))}"

    async def rights_to_give(self, reads: Sequence[str], writes: Sequence[str], group: str) -> list[str]:
        return []

    async def timed_by_senders(self, names: Sequence[str]) -> list[str]:
        return []  # lines have no times

    def how_to_time(self, name: str) -> str:
        return ""


def append_message(
    folder: Path, topic: str, key: bytes | None, headers: Iterable[tuple[str, bytes]], value: bytes
) -> None:
    append_lines(_file_of(folder, topic), _encode_parts(key, headers, value))


def check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileNotUsable(f"{str(folder)!r} is not a folder; name a folder for the files of the topics")
    folder.mkdir(parents=True, exist_ok=True)


def _file_of(folder: Path, topic: str) -> Path:
    return folder / f"{topic}.jsonl"


def _encode(message: Message) -> bytes:
    key = message.key.encode() if message.key is not None else None
    return _encode_parts(key, ((name, value.encode()) for name, value in message.headers), message.value)


def _encode_parts(key: bytes | None, headers: Iterable[tuple[str, bytes]], value: bytes) -> bytes:
    line: dict[str, Any] = {
        "key": key.decode(errors="replace") if key is not None else None,
        "headers": {name: text.decode(errors="replace") for name, text in headers},
    }
    if _is_json_line(value):
        line["value"] = msgspec.Raw(value)
    else:
        line["base64"] = b64encode(value).decode()
    return msgspec.json.encode(line) + b"\n"


def _is_json_line(value: bytes) -> bool:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        msgspec.json.decode(value)
        value.decode()
        return b"\n" not in value
    return False


def _decode(topic: str, number: int, line: bytes) -> Incoming:
    """A line in another format is a message with just this content; its consumer decides about it."""
    facts: dict[str, Any] = {"topic": topic, "partition": 0, "offset": number}
    try:
        read = msgspec.json.decode(line, type=_Line)
        value = bytes(read.value) or b64decode(read.base64 or "", validate=True)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
        return Incoming(**facts, key=None, value=line)
    headers = tuple((name, text.encode()) for name, text in read.headers.items())
    key = read.key.encode() if read.key is not None else None
    return Incoming(**facts, key=key, value=value, headers=headers)
