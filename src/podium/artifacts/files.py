"""The few things a store asks of a file system.

They are a port of their own so that tests can take the power away between any two of them, and see what is left
when only that survives which was synced. Nothing else in the local store touches files.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

# Artifacts hold what steps printed and made; other users of the machine have no business there.
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


class FileFacts(NamedTuple):
    size: int
    modified: datetime


class FileSystem(Protocol):
    """Every call raises OSError as the operating system does."""

    def make_directory(self, path: Path) -> bool:
        """True if it was made, False if it was there; its parent has to be there."""
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
        """Give a file a second name; raises FileExistsError rather than take the name from another."""
        ...

    def replace(self, path: Path, name: Path) -> None:
        """Give a file another name, taking it from whatever has it, in one step."""
        ...

    def remove(self, path: Path) -> None: ...

    def touch(self, path: Path) -> None:
        """Make it as young as if it had just been written."""
        ...

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """Up to `size` bytes from there; fewer only at the end."""
        ...

    def look(self, path: Path) -> FileFacts: ...

    def names(self, path: Path) -> list[str]:
        """What is in a directory, in no particular order."""
        ...

    def lock(self, path: Path, *, alone: bool) -> AbstractContextManager[None]:
        """Hold a lock that all processes share, or hold it alone. A dead process holds none."""
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
            # The system may take less than it is given, for instance when the disk is nearly full.
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
        # Opened for writing although nothing is written: NFS gives an exclusive lock only then.
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
