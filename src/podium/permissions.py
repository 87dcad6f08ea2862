"""Who may read what a run leaves: by default only the user who runs it.

A process of Podium itself creates files for its user alone (umask 077); the children it starts get the umask that it
was started with, since what they build is not ours. Inside another program, whose umask is not ours either, the
directory of a run is closed to others instead.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

_OTHERS: Final = 0o077
Permissions = Literal["private", "umask"]

_chosen: Permissions = "private"
# What the process was started with; None as long as its umask is still that.
_inherited: int | None = None


def use_permissions(chosen: Permissions) -> None:
    """For a process that is Podium: from now on its files are private, unless the user wants the umask to decide."""
    global _chosen, _inherited
    _chosen = chosen
    if chosen == "private" and _inherited is None:
        _inherited = os.umask(_OTHERS)


def folder_mode() -> int:
    return 0o700 if _chosen == "private" else 0o777


def inherited_umask() -> int | None:
    """What children are to have; None if they simply inherit it."""
    return _inherited


def readable_by_others(paths: Iterable[Path]) -> Path | None:
    """The first of them that other users can get at, if that is not what the user wants."""
    if _chosen != "private":
        return None
    for path in paths:
        try:
            if path.stat().st_mode & _OTHERS and path.parent.stat().st_mode & _OTHERS:
                return path
        except OSError:
            continue
    return None
