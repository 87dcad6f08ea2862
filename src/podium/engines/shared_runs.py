"""Identity of a folder of runs: hosts that have the same folder at the same path compute the same mark."""

import contextlib
from pathlib import Path
from typing import Final
from uuid import uuid4

from podium.runtime.rundir import write_atomically

_FILE: Final = ".podium-shared"


def mark_of(runs: Path) -> str:
    """The path, and an id that is in the folder. The first process that needs the id creates it."""
    path = runs.absolute()
    path.mkdir(parents=True, exist_ok=True)
    file = path / _FILE
    if not file.exists():
        made = path / f"{_FILE}.{uuid4().hex}"
        write_atomically(made, uuid4().hex.encode(), durable=True)
        # Of several concurrent processes, one wins.
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(made)
        made.unlink()
    return f"{path}|{file.read_text().strip()}"
