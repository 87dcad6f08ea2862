"""Processes: started without a shell, each in a session of its own, and awaited by a pidfd.

`posix_spawn` and a pidfd cost a fraction of what asyncio's own way does. The runner is a *subreaper*:
processes that a child leaves behind, even in sessions of their own, become our children and are found
(`families.py`).
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from podium.permissions import inherited_umask

_PR_SET_CHILD_SUBREAPER: Final = 36
# Base of the exit code of a child killed by signal n.
KILLED_BY: Final = 128
# Other code in this process has taken the exit status of our child.
STATUS_LOST: Final = 255
# Children inherit ignored signals; signals with a handler are reset in children anyway.
_BACK_TO_DEFAULT: Final = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
)

# Ignored by Python itself; `subprocess` handles them.
_PYTHON_IGNORES: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})

# Pids of our children that are being awaited: none of these is an orphan.
awaited: set[int] = set()


def become_subreaper() -> None:
    """Orphaned descendants become children of this process instead of init's."""
    _c_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Signals that our parent left ignored (a shell does that for background commands) would also be ignored
    # by children. A handler that does nothing has the same effect for us, and none for them. And if SIGCHLD
    # were ignored, the kernel would discard exit statuses.
    for number in _BACK_TO_DEFAULT:
        if number not in _PYTHON_IGNORES and signal.getsignal(number) is signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # only allowed in the main thread
                signal.signal(number, signal.SIG_DFL if number is signal.SIGCHLD else _ignore_signal)
    # A pipe with the number 0, 1 or 2 would collide with a child's own.
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _ignore_signal(_number: int, _frame: object) -> None:
    """Ignores a signal."""


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class Child:
    """A running child process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # The signal that ended it.
        self.killed_by: signal.Signals | None = None
        loop = asyncio.get_running_loop()
        try:
            # Also works for a child that has ended already: until it is reaped its pid is not reused.
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._ended: asyncio.Future[int] = loop.create_future()
        self._callbacks: list[Callable[[Any], object]] = []
        awaited.add(pid)
        loop.add_reader(self._pidfd, self._on_end)

    @property
    def ended(self) -> "asyncio.Future[int]":
        """The exit code; 128 + n for a child killed by signal n."""
        return self._ended

    # Like those of a future, but called as soon as it ends and not in a later turn of the event loop.

    def done(self) -> bool:
        return self._ended.done()

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    def remove_done_callback(self, callback: Callable[[Any], object], /) -> None:
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        code = STATUS_LOST
        with contextlib.suppress(ChildProcessError):
            status = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            assert status is not None
            code = status.si_status
            if status.si_code != os.CLD_EXITED:
                self.killed_by = signal.Signals(status.si_status)
                code += KILLED_BY
        os.close(self._pidfd)
        awaited.discard(self.pid)
        if not self._ended.done():
            self._ended.set_result(code)
        for callback in self._callbacks:
            callback(self)
        self._callbacks.clear()


def spawn(
    argv: list[str], env: Mapping[str, str], *, program: str, cwd: Path, stdin: int, stdout: int, stderr: int
) -> Child:
    """Start a program. Raises OSError if it cannot be started."""
    if str(cwd) != os.getcwd():  # noqa: PTH109 - a text is compared for every command
        return _spawn_elsewhere(argv, env, program, cwd, stdin, stdout, stderr)
    inherited = inherited_umask()
    # A child inherits the umask that its parent has at this moment.
    ours = os.umask(inherited) if inherited is not None else 0
    try:
        pid = os.posix_spawn(
            program,
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((stdin, stdout, stderr))],
            setsid=True,
            setsigdef=_BACK_TO_DEFAULT,
            setsigmask=(),
        )
    finally:
        if inherited is not None:
            os.umask(ours)
    return Child(pid)


def _spawn_elsewhere(
    argv: list[str], env: Mapping[str, str], program: str, cwd: Path, stdin: int, stdout: int, stderr: int
) -> Child:
    """`posix_spawn` cannot change the directory; `subprocess` can, and is slightly slower."""
    inherited = inherited_umask()
    popen = subprocess.Popen(
        argv,
        executable=program,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        umask=inherited if inherited is not None else -1,
    )
    # The child is awaited here; `subprocess` must neither do that nor warn that it was not.
    popen.returncode = 0
    return Child(popen.pid)


def find_program(name: str, path: str | None, cwd: Path) -> str:
    """The file to execute: a name is searched in PATH, a path is relative to the working directory."""
    if "/" in name:
        found = cwd / name
        if not found.exists():
            raise FileNotFoundError(name)
        if not os.access(found, os.X_OK) or found.is_dir():
            raise PermissionError(name)
        return str(found)
    # Strings, not paths, because this is done for every command.
    candidates = [
        f"{folder}/{name}" if folder.startswith("/") else f"{cwd}/{folder or '.'}/{name}"
        for folder in (path if path is not None else os.defpath).split(os.pathsep)
    ]
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):  # noqa: PTH112
            return candidate
    refused = any(os.access(candidate, os.F_OK) for candidate in candidates)
    raise PermissionError(name) if refused else FileNotFoundError(name)
