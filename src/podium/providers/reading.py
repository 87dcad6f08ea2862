"""Reads untrusted output: never more than a limit, and never with an exception.

An agent may print a hundred megabytes, half a line or invalid UTF-8. Of a large file the start and the end
are read, because sessions are reported first and results last; lines that are too long are skipped.
"""

import math
import re
from collections.abc import Iterator
from io import BytesIO
from typing import IO, Any, Final, TypeAlias

import msgspec

from podium.ports.provider import Captured

Object: TypeAlias = dict[str, Any]

MAX_LINE: Final = 16 << 20
# Of a larger file half of this is read from its start and half from its end.
MAX_READ: Final = 128 << 20
MAX_TEXT: Final = 8 << 20
MAX_MESSAGE: Final = 2000
CUT: Final = "\n[... cut here]"
_MAX_DETAIL: Final = 200
# Deeper JSON would exhaust the stack of recursive code.
_MAX_DEPTH: Final = 200
_STATUS: Final = re.compile(r"(?:status|code|error)\W{1,8}([45]\d\d)\b|\(([45]\d\d)\)", re.IGNORECASE)


def lines_of(captured: Captured) -> Iterator[bytes]:
    """Its lines without line ends, within the limits above. A file that cannot be read has none."""
    try:
        with _opened(captured) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size <= MAX_READ:
                yield from _lines(file, size)
                return
            yield from _lines(file, MAX_READ // 2)
            file.seek(size - MAX_READ // 2)
            # The rest of a line whose start is not read.
            _skip_line(file)
            yield from _lines(file, size - file.tell())
    except OSError:
        return


def objects_of(captured: Captured, *words: bytes) -> Iterator[Object]:
    """The JSON objects among its lines that contain one of the words, if any are given; other lines are
    ignored.
    """
    for line in lines_of(captured):
        found = as_object(line) if not words or any(word in line for word in words) else None
        if found is not None:
            yield found


def head_of(captured: Captured, most: int = MAX_TEXT) -> str:
    """Its start as text."""
    try:
        with _opened(captured) as file:
            content = file.read(most + 1)
    except OSError:
        return ""
    return content[:most].decode("utf-8", "replace") + (CUT if len(content) > most else "")


def tail_of(captured: Captured, most: int = MAX_MESSAGE) -> str:
    """Its end as text."""
    try:
        with _opened(captured) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            return file.read(most).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def breaks_off(captured: Captured) -> bool:
    """Whether its last line has no end."""
    try:
        with _opened(captured) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 1))
            return size > 0 and file.read(1) != b"\n"
    except OSError:
        return False


def as_object(text: bytes | str) -> Object | None:
    found = as_json(text)
    return found if isinstance(found, dict) else None


def as_json(text: bytes | str) -> Any:
    """The value, or None if it is not JSON or nested too deep."""
    if len(text) > MAX_LINE:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    # Counting is cheap, and nearly always sufficient.
    shallow = raw.count(b"{") + raw.count(b"[") <= _MAX_DEPTH or _is_shallow(found)
    return found if shallow else None


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False


# --- fields of an object, whatever it really holds -----------------------------------------------


def text_at(found: Object, *path: str) -> str:
    value = value_at(found, *path)
    return value if isinstance(value, str) else ""


def object_at(found: Object, *path: str) -> Object:
    value = value_at(found, *path)
    return value if isinstance(value, dict) else {}


def list_at(found: Object, *path: str) -> list[Any]:
    value = value_at(found, *path)
    return value if isinstance(value, list) else []


def count_at(found: Object, *path: str) -> int:
    value = value_at(found, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def dollars_at(found: Object, *path: str) -> float | None:
    value = value_at(found, *path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value) if math.isfinite(value) else None


def value_at(found: Object, *path: str) -> Any:
    value: Any = found
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


# --- texts ----------------------------------------------------------------------------------------


def bounded(text: str, most: int = MAX_TEXT) -> str:
    return text if len(text) <= most else text[:most] + CUT


def one_line(text: str) -> str:
    """For a message: one short line."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 3]}..."


def detail_of(arguments: Any) -> str:
    """What a tool is used on, in a few words."""
    if not isinstance(arguments, dict):
        return ""
    named = (text_at(arguments, key) for key in ("command", "file_path", "path", "url", "pattern", "query"))
    return one_line(next((text for text in named if text), ""))[:_MAX_DETAIL]


def status_in(text: str) -> int | None:
    """The HTTP status in a message."""
    match = _STATUS.search(text[:MAX_MESSAGE])
    return int(match[1] or match[2]) if match else None


def _opened(captured: Captured) -> IO[bytes]:
    return BytesIO(captured) if isinstance(captured, bytes) else captured.open("rb")


def _lines(file: IO[bytes], most: int) -> Iterator[bytes]:
    end = file.tell() + most
    while file.tell() < end:
        line = file.readline(MAX_LINE + 1)
        if not line:
            return
        if len(line) > MAX_LINE and not line.endswith(b"\n"):
            _skip_line(file)
            continue
        yield line.rstrip(b"\r\n")


def _skip_line(file: IO[bytes]) -> None:
    while True:
        part = file.readline(1 << 20)
        if not part or part.endswith(b"\n"):
            return
