"""Debian's packages, for tests under CI: a missing program is a failure there, so it is installed."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import gettempdir

Run = Callable[[Sequence[str]], int]


def install(packages: Sequence[str], is_installed: Callable[[], bool], run: Run | None = None) -> None:
    """Install the packages if the tests run as root under CI. Processes that ask at the same time take turns.

    The lists of a new machine may be missing or too old for the packages, so they are fetched if the first try fails.
    """
    if os.environ.get("CI") != "true" or os.getuid() != 0 or shutil.which("apt-get") is None:
        return
    run = run or _run
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    with (Path(gettempdir()) / "podium-apt.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not is_installed() and run(command) != 0 and run(["apt-get", "update"]) == 0:
            run(command)


def _run(command: Sequence[str]) -> int:
    given = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=given, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode
