"""Processes of Podium that are forked from one which has everything imported: most time goes into what they do.

python -m tests.torture.forked     reads one `Order` a line, answers each with the number of a new process
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

_SET_PARENT_DEATH_SIGNAL = 1


class Order(msgspec.Struct, frozen=True):
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    log: str


class Forked:
    """As `subprocess.Popen` has it; the exit code is not known."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self, seconds: float = 60) -> int:
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired([str(self.pid)], seconds)
            time.sleep(0.01)
        return 0

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Forker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.forked"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=_die_with_parent,
        )

    def start(self, order: Order) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        return Forked(int(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _serve() -> None:
    import podium.cli
    import podium.engines.conductor.engine
    import podium.engines.conductor.worker
    import podium.stores.postgres
    import podium.stores.sqlite  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their ends are not waited for
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            _become(msgspec.json.decode(line, type=Order))
        print(pid, flush=True)


def _become(order: Order) -> None:
    from podium.cli import main

    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with Path(order.log).open("wb") as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.update(order.environment)
    os.chdir(order.folder)
    sys.argv = ["podium", *order.arguments]
    try:
        main()
    finally:
        sys.stdout.flush()
        os._exit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
