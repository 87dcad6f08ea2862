"""Information about processes from /proc, and signalling one without ever hitting another.

A process is identified by its pid and its start time, because pids are reused. A signal is sent through a
pidfd that was opened before the two were compared, so it reaches exactly the process that was examined.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

import msgspec

_PF_EXITING: Final = 0x4


class Seen(msgspec.Struct, frozen=True):
    """A process as it was when it was examined."""

    pid: int
    parent: int
    session: int
    began: int
    state: str
    # It is about to end: its memory, and with it its environment, may be gone, but it still has its children.
    is_ending: bool

    @property
    def is_gone(self) -> bool:
        """It has ended; only its exit status still exists."""
        return self.state in "ZX"


def look(pid: int) -> Seen | None:
    try:
        stat = _content(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name is in parentheses and may contain anything, even parentheses.
    fields = stat[stat.rfind(b")") + 2 :].split()
    is_ending = bool(int(fields[6]) & _PF_EXITING)
    return Seen(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode(), is_ending)


def children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (names, not paths: done for every step)
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            found += map(int, _content(f"/proc/{pid}/task/{thread}/children").split())
        except (OSError, ValueError):
            continue
    return found


def _content(path: str) -> bytes:
    """The content of a file of /proc. A path object would take three times as long, and this is done for
    every step.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while chunk := os.read(file, 1 << 16):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(file)


def descendants(pid: int) -> set[int]:
    """Children, their children, and so on."""
    found: set[int] = set()
    pending = [pid]
    while pending:
        for child in children(pending.pop()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found


def ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1 and pid not in found:
        found.add(pid)
        seen = look(pid)
        pid = seen.parent if seen is not None else 0
    return found


def has_in_environment(pid: int, entries: list[bytes]) -> bool:
    """Whether the process was started with all of these, each `NAME=value`."""
    try:
        environment = _content(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return False
    return all(entry in environment for entry in entries)


def variable(pid: int, name: str) -> str:
    """A variable of the process's initial environment; empty if it is not set or not readable."""
    try:
        entries = _content(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return ""
    mark = f"{name}=".encode()
    return next((os.fsdecode(one[len(mark) :]) for one in entries if one.startswith(mark)), "")


def name_of(pid: int) -> str:
    """The name of the process, at most 15 characters; empty if the process does not exist."""
    try:
        return os.fsdecode(_content(f"/proc/{pid}/comm")).removesuffix("\n")
    except OSError:
        return ""


def everyone() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def send(process: Seen, number: signal.Signals) -> None:
    """Signal this process, if it is still the one that was seen."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = look(process.pid)
        if now is not None and now.began == process.began:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)
