"""Which process holds the write lock of a database, for messages: a stopped one prevents all others from
writing.

The kernel lists SQLite's own lock, with its holder, in /proc/locks. Querying it with `fcntl` would require
opening the file, and closing it again would release the locks that this process has on it.
"""

import os
from pathlib import Path
from typing import Final

# Where SQLite locks the shared memory of a write-ahead log while it writes: UNIX_SHM_BASE.
_WRITE_LOCK: Final = "120"
_STOPPED: Final = "Tt"


def describe_holder(path: Path) -> str:
    """What to do about the process that holds the lock, or where to look if it is unknown."""
    pid = _holder(path) or _stopped_user(path)
    if pid is None or pid == os.getpid():
        return f"see with `fuser {path}.lock` whether another process holds it, or whether the disk is overloaded"
    if _state(pid) in _STOPPED:
        return (
            f"process {pid} holds its write lock and is stopped: let it continue with `kill -CONT {pid}`, "
            f"or end it with `kill -KILL {pid}`: the lock is free then and nothing recorded is lost"
        )
    return f"process {pid} holds its write lock: wait for it, or see whether the disk is overloaded"


def is_stopped(path: Path) -> bool:
    """Whether the process that holds the lock is stopped until another one lets it continue."""
    pid = _holder(path)
    return pid is not None and _state(pid) in _STOPPED


def _holder(path: Path) -> int | None:
    try:
        found = path.with_name(f"{path.name}-shm").stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        # 5: POSIX  ADVISORY  WRITE 20963 fe:00:10151153 120 120
        words = line.split()
        if (
            len(words) == 8
            and words[1] == "POSIX"
            and words[3] == "WRITE"
            and words[5:7] == [device, _WRITE_LOCK]
        ):
            return int(words[4])
    return None


def _stopped_user(path: Path) -> int | None:
    """A stopped process with the lock file open: outside of a transaction the kernel lists no holder."""
    lock = f"{path}.lock"
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _state(int(process.name)) in _STOPPED and _has_open(process, lock):
            return int(process.name)
    return None


def _has_open(process: Path, path: str) -> bool:
    try:
        return any(str(file.readlink()) == path for file in (process / "fd").iterdir())
    except OSError:
        return False


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"
