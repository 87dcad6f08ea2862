"""Permissions of a run's files: by default only the user who runs it can read them.

A Podium process creates files for its user only (umask 077); its children get the umask with which it was
started, since what they create is not ours. Inside another program, whose umask must not be changed, the
directory of a run is made inaccessible to others instead.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

_OTHERS: Final = 0o077
Permissions = Literal["private", "umask"]

_chosen: Permissions = "private"
# The umask with which the process was started; None if it was not changed.
_inherited: int | None = None


def use_permissions(chosen: Permissions) -> None:
    """For Podium's own processes: from now on files are private, unless the user wants the umask to decide."""
    global _chosen, _inherited
    _chosen = chosen
    if chosen == "private" and _inherited is None:
        _inherited = os.umask(_OTHERS)


def folder_mode() -> int:
    return 0o700 if _chosen == "private" else 0o777


def inherited_umask() -> int | None:
    """The umask for children; None if they simply inherit it."""
    return _inherited


def readable_by_others(paths: Iterable[Path]) -> Path | None:
    """The first of them that other users can access, if the user does not want that."""
    if _chosen != "private":
        return None
    for path in paths:
        try:
            if path.stat().st_mode & _OTHERS and path.parent.stat().st_mode & _OTHERS:
                return path
        except OSError:
            continue
    return None


def changeable_by_others(folder: Path) -> bool:
    """Whether other users (not root) could replace what is in it, if the user does not want that."""
    if _chosen != "private":
        return False
    try:
        found = folder.stat()
    except OSError:
        return False
    everyone_writes = bool(found.st_mode & stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    return everyone_writes or found.st_uid not in (0, os.getuid())
