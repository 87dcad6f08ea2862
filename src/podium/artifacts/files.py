"""The file system operations that a store needs.

They are a port of their own so that tests can simulate a power failure between any two of them, and check
what is left if only synced data survives. Nothing else in the local store accesses files.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

# Artifacts contain output of steps, so other users of the machine must not read them.
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


class FileFacts(NamedTuple):
    size: int
    modified: datetime


class FileSystem(Protocol):
    """Every call raises OSError as the operating system does."""

    def make_directory(self, path: Path) -> bool:
        """True if it was created, False if it existed; its parent has to exist."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make the names in it durable."""
        ...

    def create(self, path: Path) -> int:
        """A new file, open for writing."""
        ...

    def write(self, file: int, data: bytes) -> None:
        """All of the data."""
        ...

    def sync(self, file: int) -> None:
        """Make its content durable."""
        ...

    def close(self, file: int) -> None: ...

    def link(self, path: Path, name: Path) -> None:
        """Give a file a second name; raises FileExistsError instead of replacing another file."""
        ...

    def replace(self, path: Path, name: Path) -> None:
        """Rename a file atomically, replacing an existing one."""
        ...

    def remove(self, path: Path) -> None: ...

    def touch(self, path: Path) -> None:
        """Set its modification time to now."""
        ...

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end."""
        ...

    def look(self, path: Path) -> FileFacts: ...

    def names(self, path: Path) -> list[str]:
        """What is in a directory, in no particular order."""
        ...

    def lock(self, path: Path, *, alone: bool) -> AbstractContextManager[None]:
        """Hold a shared lock, or an exclusive one if `alone`. The lock of a dead process is released."""
        ...


class RealFiles:
    """The file system of this machine."""

    def make_directory(self, path: Path) -> bool:
        try:
            path.mkdir(_DIRECTORY_MODE)
        except FileExistsError:
            if not path.is_dir():
                raise
            return False
        return True

    def sync_directory(self, path: Path) -> None:
        with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
            os.fsync(directory)

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)

    def write(self, file: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            # The system may write less than it is given, for example when the disk is nearly full.
            left = left[os.write(file, left) :]

    def sync(self, file: int) -> None:
        os.fsync(file)

    def close(self, file: int) -> None:
        os.close(file)

    def link(self, path: Path, name: Path) -> None:
        name.hardlink_to(path)

    def replace(self, path: Path, name: Path) -> None:
        path.replace(name)

    def remove(self, path: Path) -> None:
        path.unlink()

    def touch(self, path: Path) -> None:
        os.utime(path)

    def read(self, path: Path, offset: int, size: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def look(self, path: Path) -> FileFacts:
        facts = path.stat()
        return FileFacts(facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))

    def names(self, path: Path) -> list[str]:
        return [entry.name for entry in path.iterdir()]

    @contextmanager
    def lock(self, path: Path, *, alone: bool) -> Iterator[None]:
        # Opened for writing although nothing is written: NFS grants an exclusive lock only then.
        with _opened(path, os.O_RDWR | os.O_CREAT) as file:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)
    try:
        yield file
    finally:
        os.close(file)
