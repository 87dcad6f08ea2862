"""Reading files that a user or a step named: regular files of a bounded size.

A device or a pipe can be read without end, or makes the reader wait for ever. It is opened without waiting and then
refused, by what was opened: a name may lead elsewhere a moment later.
"""

import os
import stat
from pathlib import Path
from typing import Final

from podium.errors import PodiumError
from podium.text import without_credentials

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class FileNotUsable(PodiumError):
    """Not a regular file, or larger than what it is for."""

    code = "FILE_NOT_USABLE"


def read_regular(path: Path, *, max_bytes: int, what: str, private: bool = False) -> bytes:
    """The content of a file. `what`: what it should hold, for the message. Raises `FileNotUsable` and OSError.

    `private`: others than its owner must not be able to read or change it.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise FileNotUsable(f"{_shown(path)} is {kind}; give the path of a regular file with {what}")
        if private and found.st_mode & _OTHERS:
            raise FileNotUsable(
                f"{_shown(path)} can be used by others (mode {stat.S_IMODE(found.st_mode):04o}); "
                f"`chmod 600` makes a file with {what} yours alone"
            )
        with os.fdopen(file, "rb", closefd=False) as opened:
            content = opened.read(max_bytes + 1)
    finally:
        os.close(file)
    if len(content) > max_bytes:
        raise FileNotUsable(
            f"{_shown(path)} has {max(found.st_size, len(content)):,} bytes; "
            f"a file with {what} may have {max_bytes:,}"
        )
    return content


def _shown(path: Path) -> str:
    return repr(without_credentials(str(path)))
