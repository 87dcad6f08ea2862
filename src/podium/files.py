"""Reads files named by a user or a step: regular files of limited size.

A device or a pipe may be endless, or block the reader forever. It is opened without blocking and then
refused, by checking the opened file: the name may refer to another file a moment later.
"""

import os
import stat
from pathlib import Path
from typing import IO, Final

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
    """Not a regular file, or too large for its purpose."""

    code = "FILE_NOT_USABLE"


def open_regular(path: Path, *, what: str, private: bool = False) -> IO[bytes]:
    """Open a file for reading. `what`: its expected content, for the message. Raises `FileNotUsable` and
    OSError.

    `private`: only its owner may be able to read or change it.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise FileNotUsable(f"{_shown(path)} is {kind}; give the path of a regular file with {what}")
        if private and mode & _OTHERS:
            raise FileNotUsable(
                f"{_shown(path)} can be used by others (mode {stat.S_IMODE(mode):04o}); "
                f"`chmod 600` makes a file with {what} yours alone"
            )
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_regular(path: Path, *, max_bytes: int, what: str, private: bool = False) -> bytes:
    """The content of a file. Raises what `open_regular` raises, and `FileNotUsable` for a file that is too
    large.
    """
    with open_regular(path, what=what, private=private) as opened:
        size = os.fstat(opened.fileno()).st_size
        content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileNotUsable(
            f"{_shown(path)} has {max(size, len(content)):,} bytes; a file with {what} may have {max_bytes:,}"
        )
    return content


def _shown(path: Path) -> str:
    return repr(without_credentials(str(path)))
