"""The name of a worker on a server. Most events of a step in a Temporal history repeat it, so it is short.

PID@HOST:PLACESTART    PLACE is a mark of the boot and of the pid namespace
"""

import os
import socket
from hashlib import sha256
from typing import Final

from podium.runtime import holders
from podium.runtime.tasks import proc

_PLACE_LENGTH: Final = 4


def worker_name() -> str:
    """The name of this process."""
    pid = os.getpid()
    return f"{pid}@{socket.gethostname()}:{_place()}{holders.start_of(pid):x}"


def is_gone(name: str) -> bool:
    """Whether the worker's process was on this host and has certainly ended."""
    pid, _, rest = name.partition("@")
    host, _, mark = rest.rpartition(":")
    place, start = mark[:_PLACE_LENGTH], mark[_PLACE_LENGTH:]
    if not (pid.isascii() and pid.isdigit()) or host != socket.gethostname() or place != _place():
        return False
    seen = proc.look(int(pid))
    return seen is None or seen.is_gone or f"{seen.began:x}" != start


def _place() -> str:
    return sha256(holders.process_space().encode()).hexdigest()[:_PLACE_LENGTH]
