"""Writing into the directory of a run, to which steps can write as well: links that they created there are
never followed.

A step could put a symbolic or a hard link, or a link in place of a folder, where the driver is about to
write, and so make it overwrite any other file of the user. So a new file is always created, a file that is
continued must have only one name, and the two folders above it are opened without following links.
"""

import contextlib
import os
import stat
from io import FileIO
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MORE: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_TRIES: Final = 20


def open_new(path: str | Path) -> FileIO:
    """An empty file; an existing one with this name is removed."""
    folder, name = _open_folder(path)
    try:
        return FileIO(_create(folder, name), "wb")
    finally:
        os.close(folder)


def open_to_append(path: str | Path) -> FileIO:
    """The file, or a new one if it does not exist or has other links."""
    folder, name = _open_folder(path)
    try:
        with contextlib.suppress(OSError):
            file = os.open(name, _MORE, dir_fd=folder)
            if _is_ours_alone(os.fstat(file)):
                return FileIO(file, "ab")
            os.close(file)
        return FileIO(_create(folder, name), "ab")
    finally:
        os.close(folder)


def write_new(path: str | Path, content: bytes) -> None:
    with open_new(path) as file:
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]


def remove_links(path: Path) -> None:
    """Remove a file that is about to be read and truncated if it is a link, or has another name elsewhere."""
    with contextlib.suppress(FileNotFoundError):
        if not _is_ours_alone(path.lstat()):
            path.unlink()


def _create(folder: int, name: str) -> int:
    for _ in range(_MAX_TRIES):
        try:
            return os.open(name, _NEW, 0o666, dir_fd=folder)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
    raise FileExistsError(f"{name!r} comes back as often as it is removed")


def _is_ours_alone(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _open_folder(path: str | Path) -> tuple[int, str]:
    """The opened folder of a file, to be closed by the caller, and the file's name in it. Not a context
    manager, because every step pays for it.
    """
    head, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - a log of every step: `Path` is slow
    root, middle, last = head.rsplit("/", 2) if head.count("/") > 1 else ("/", ".", head)
    above = os.open(root or "/", _ROOT)
    try:
        between = os.open(middle, _FOLDER, dir_fd=above)
    finally:
        os.close(above)
    try:
        return os.open(last, _FOLDER, dir_fd=between), name
    finally:
        os.close(between)
