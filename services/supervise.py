"""A small process that outlives nobody: it runs one server for as long as anybody holds the other end of its pipe.

    python supervise.py FOLDER SIGNAL USER COMMAND..

The pipe is the FIFO `FOLDER/held`. Every process that uses the server keeps it open for writing; when the last one
closes it, or is killed, the kernel tells us, the server is stopped by SIGNAL (then KILL) and FOLDER is removed. So
several test workers share one server without counting each other, and nothing stays behind a killed test run.

Lines written to the pipe are orders: `kill` (KILL to the server and all its children, as a power cut would), `stop`
(as at the end, but the folder stays), `start` (again). After each, `FOLDER/state` says what is the case: a counter of
the orders carried out and the server's pid, 0 if it does not run. Standard library only, and nothing of Podium: it
has to start fast.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_STOP = 10.0


class Supervisor:
    def __init__(self, folder: Path, stop_signal: signal.Signals, user: str, command: list[str]) -> None:
        self._folder = folder
        self._stop_signal = stop_signal
        self._user = user or None
        self._command = command
        self._server: subprocess.Popen[bytes] | None = None
        self._orders = 0

    def run(self) -> None:
        # Children of a killed server become ours, so that they can be waited for and none is left as a zombie.
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        orders = {"start": self._start, "stop": self._stop, "kill": self._kill}
        try:
            with (self._folder / "held").open() as held:
                self._done(self._start)
                for line in held:
                    self._done(orders[line.strip()])
        finally:
            self._stop()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _done(self, order: object) -> None:
        assert callable(order)
        order()
        self._orders += 1
        running = self._server.pid if self._server is not None else 0
        written = self._folder / "state.new"
        written.write_text(f"{self._orders} {running}")
        written.rename(self._folder / "state")

    def _start(self) -> None:
        self._stop()
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                user=self._user,
                group=_group_of(self._user),
                extra_groups=[] if self._user else None,
                start_new_session=True,
            )

    def _stop(self) -> None:
        if self._server is None:
            return
        self._server.send_signal(self._stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(_SECONDS_TO_STOP)
        self._kill()

    def _kill(self) -> None:
        """Everything at once: PostgreSQL's children have sessions of their own, so a group is not enough."""
        if self._server is None:
            return
        doomed = [*descendants(self._server.pid), self._server.pid]
        for pid in doomed:
            if pid != self._server.pid or self._server.poll() is None:
                _kill(pid)
        self._server.wait()
        self._server = None
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # After the name, which may hold anything but ends at the last bracket: state, parent.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _group_of(user: str | None) -> int | None:
    if user is None:
        return None
    import pwd

    return pwd.getpwnam(user).pw_gid


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # whoever started us waits for this much, and need not wait for a child ever after
    os.setsid()
    signal.signal(signal.SIGTERM, _end)
    folder_given, signal_given, user_given, *command_given = sys.argv[1:]
    Supervisor(Path(folder_given), signal.Signals[signal_given], user_given, command_given).run()
