"""Which folder of runs this is: hosts that see the same one under the same path have the same mark of it."""

import contextlib
from pathlib import Path
from typing import Final
from uuid import uuid4

from podium.runtime.rundir import write_atomically

_FILE: Final = ".podium-shared"


def mark_of(runs: Path) -> str:
    """The path, and an id that is in the folder. The first that needs it makes it."""
    path = runs.absolute()
    path.mkdir(parents=True, exist_ok=True)
    file = path / _FILE
    if not file.exists():
        made = path / f"{_FILE}.{uuid4().hex}"
        write_atomically(made, uuid4().hex.encode(), durable=True)
        # Of several at the same time, one wins.
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(made)
        made.unlink()
    return f"{path}|{file.read_text().strip()}"
