"""The side of whoever uses a supervised server: start one, join one, order it about, let go of it.

See `supervise.py` for the process that does the work.
"""

import contextlib
import errno
import os
import pwd
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_SECONDS_TO_ANSWER = 60.0
_LOWEST_PORT = 10_000
_USUAL_FIRST_EPHEMERAL_PORT = 32_768
_TRIES_FOR_A_PORT = 100


class Supervised:
    """A server that runs as long as somebody holds it."""

    def __init__(self, folder: Path, held: int) -> None:
        self.folder = folder
        self._held = held

    @property
    def pid(self) -> int:
        """Of the server itself; 0 if it was killed or stopped."""
        return self._state()[1]

    def order(self, word: str) -> None:
        """`kill`, `stop` or `start`; returns when it was carried out."""
        before = self._state()[0]
        os.write(self._held, f"{word}\n".encode())
        wait_until(lambda: self._state()[0] > before, f"the supervisor of {self.folder} to {word}")

    def log(self) -> str:
        try:
            return (self.folder / "log").read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return ""

    def let_go(self, *, wait: bool = True) -> None:
        """The server stops when nobody holds it any longer; `wait` for that only as its single holder."""
        if self._held < 0:
            return
        os.close(self._held)
        self._held = -1
        if wait:
            wait_until(lambda: not self.folder.exists(), f"{self.folder} to be removed")

    def _state(self) -> tuple[int, int]:
        try:
            orders, pid = (self.folder / "state").read_text().split()
        except FileNotFoundError:
            return 0, 0
        return int(orders), int(pid)


def start(folder: Path, command: Sequence[str], *, stop_signal: str, user: str = "") -> Supervised:
    """Run a command in a folder made for it; the folder is removed when it is over."""
    os.mkfifo(folder / "held")
    subprocess.run(
        [sys.executable, "-S", "-E", str(_SUPERVISOR), str(folder), stop_signal, user, *command],
        stdin=subprocess.DEVNULL,
        cwd="/",
        check=True,
    )
    server = Supervised(folder, os.open(folder / "held", os.O_WRONLY))
    wait_until(lambda: server.pid > 0, f"{command[0]} to be started")
    return server


def join(folder: Path) -> Supervised | None:
    """Hold a server that another process started; None if nobody holds it any longer and it is gone."""
    try:
        held = os.open(folder / "held", os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return None
        raise
    return Supervised(folder, held)


def wait_until(true: Callable[[], bool], what: str, seconds: float = _SECONDS_TO_ANSWER) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def free_port() -> int:
    """A free port that the kernel gives to nobody who asks for any: a server that is restarted gets it again."""
    for _ in range(_TRIES_FOR_A_PORT):
        port = random.SystemRandom().randrange(_LOWEST_PORT, _first_ephemeral_port())
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", port))
                return port
    raise RuntimeError(f"no free port found in {_TRIES_FOR_A_PORT} tries")


def _first_ephemeral_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        first = 0
    return first if first > _LOWEST_PORT else _USUAL_FIRST_EPHEMERAL_PORT


def unprivileged_user() -> str:
    """For servers that refuse to run as root: somebody else then; nobody in particular if we are not root."""
    if os.geteuid() != 0:
        return ""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def make_folder(name: str, user: str = "") -> Path:
    """A new temporary folder that this user can reach."""
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    place = next(place for place in places if not user or reachable_by_all(place))
    folder = Path(tempfile.mkdtemp(prefix=f"podium-{name}-", dir=place))
    if user:
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    return folder


def reachable_by_all(path: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in [path, *path.parents] if one.is_dir())
