"""The programs that the workflows of the corpus call. They do the same on every engine and every machine.

`exit 1 0` fails at the first attempt and succeeds from the second on; `say` prints its argument and `show` the variable
N; `hang` and `timeout` run until they are stopped; `agent` costs as many dollars as its prompt says.
"""

from pathlib import Path
from typing import Final

_FOREVER: Final = "exec sleep 1000"
_PROGRAMS: Final = {
    "exit": 'n=$PODIUM_ATTEMPT\n[ "$n" -gt "$#" ] && n=$#\nshift $((n - 1))\nexit "$1"',
    "say": "printf '%s' \"$1\"",
    "show": "printf '%s' \"$N\"",
    "hang": _FOREVER,
    "timeout": _FOREVER,
    "agent": 'printf \'{"text": "done", "usd": %s, "tokens": 3}\' "$(cat)"',
}


def write_programs(folder: Path) -> Path:
    """Make the folder, which then belongs on the PATH of the steps."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in _PROGRAMS.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    return folder
