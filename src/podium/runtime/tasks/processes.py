"""Processes: started without a shell, in a session of their own, and ended with everything they started.

A child is started by `posix_spawn` and waited for by a pidfd, which costs a fraction of what asyncio's own way does.
The runner is a *subreaper*: what a child leaves behind, even in a session of its own, becomes a child of ours and is
found. To stop a step, TERM goes to its session and to every descendant found by walking /proc; after a grace time KILL
does, again and again until none is left: tool shells of real agents run in sessions of their own.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

GRACE_SECONDS: Final = 5.0
_KILL_ROUNDS: Final = 50
_PR_SET_CHILD_SUBREAPER: Final = 36


def become_subreaper() -> None:
    """What the children of our children leave behind comes to us instead of to init."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Child:
    """A running child. `exit_code` is known once `wait` has returned."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    @property
    def ended(self) -> "asyncio.Future[int]":
        """The exit code: of a child killed by signal n, 128 + n."""
        return self._ended

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if not self._ended.done():
            self._ended.set_result(code if code >= 0 else 128 - code)

    async def stop(self, run_id: str, visit: str, *, forced: asyncio.Event | None = None) -> None:
        """TERM, a grace time, KILL; returns when neither the child nor any descendant of it is left."""
        tree = descendants(self.pid) | marked(run_id, visit)
        _signal(self.pid, tree, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + GRACE_SECONDS
        while asyncio.get_running_loop().time() < deadline and not (forced is not None and forced.is_set()):
            if self._ended.done() and not (tree := _alive(tree | marked(run_id, visit))):
                return
            await asyncio.sleep(0.02)
            tree |= descendants(self.pid)
        for _ in range(_KILL_ROUNDS):
            tree = _alive(tree | descendants(self.pid) | marked(run_id, visit))
            _signal(self.pid, tree, signal.SIGKILL)
            reap(tree)
            if self._ended.done() and not _alive(tree):
                return
            await asyncio.sleep(0.02)


def spawn(
    argv: list[str],
    env: Mapping[str, str],
    *,
    cwd: Path,
    stdin: Path | None,
    stdout: Path | int,
    stderr: Path | int,
) -> Child:
    """Start a program. Raises FileNotFoundError or PermissionError if there is none that can be started.

    `posix_spawn` cannot change the directory, so a child that needs another one is started by way of a launcher.
    """
    program = find_program(argv[0], env.get("PATH"), cwd)
    actions: list[tuple[int, ...]] = []
    opened: list[int] = []
    try:
        source = os.open(stdin if stdin is not None else os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        opened.append(source)
        actions.append((os.POSIX_SPAWN_DUP2, source, 0))
        for number, target in ((1, stdout), (2, stderr)):
            if isinstance(target, int):
                actions.append((os.POSIX_SPAWN_DUP2, target, number))
                continue
            file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            opened.append(file)
            actions.append((os.POSIX_SPAWN_DUP2, file, number))
        pid = os.posix_spawn(
            program,
            argv,
            env,
            file_actions=actions,
            setsid=True,
            setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
            setsigmask=(),
        )
    finally:
        for file in opened:
            os.close(file)
    return Child(pid)


def find_program(name: str, path: str | None, cwd: Path) -> str:
    """The file to execute: a name is looked for in PATH, a path is taken from the working directory."""
    if "/" in name:
        found = cwd / name
        if not found.exists():
            raise FileNotFoundError(name)
        if not os.access(found, os.X_OK) or found.is_dir():
            raise PermissionError(name)
        return str(found)
    refused = False
    for folder in (path if path is not None else os.defpath).split(os.pathsep):
        # Texts, not paths: this is done for every command.
        candidate = f"{folder or '.'}/{name}"
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
        refused |= os.access(candidate, os.F_OK)
    raise PermissionError(name) if refused else FileNotFoundError(name)


# --- whole trees of processes ---------------------------------------------------------------------


def descendants(pid: int) -> set[int]:
    """Children, their children, and so on, as /proc knows them now."""
    found: set[int] = set()
    pending = [pid]
    while pending:
        for child in _children(pending.pop()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
    children: list[int] = []
    for task in tasks:
        with contextlib.suppress(OSError, ValueError):
            children += map(int, (task / "children").read_text().split())
    return children


def marked(run_id: str, visit: str | None = None) -> set[int]:
    """Our own children, and theirs, that carry the run's (and the visit's) name in their environment.

    These are orphans: what a step left behind when its main process had gone, handed on to the subreaper.
    """
    return {pid for pid in descendants(os.getpid()) if _belongs(pid, run_id, visit)}


def of_run(run_id: str) -> set[int]:
    """Every process of this host with that run in its environment, whoever is its parent; not ourselves."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if (
            entry.name.isdigit()
            and int(entry.name) != os.getpid()
            and _belongs(int(entry.name), run_id, None)
        ):
            found.add(int(entry.name))
    return found


def _belongs(pid: int, run_id: str, visit: str | None) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    wanted = [f"PODIUM_RUN_ID={run_id}".encode()]
    if visit is not None:
        wanted.append(f"PODIUM_VISIT={visit}".encode())
    return all(entry in environment for entry in wanted)


def has_children_besides(known: set[int]) -> bool:
    """Whether anything became our child that no step has as its main process: one read, in the usual case."""
    return any(child not in known for child in _children(os.getpid()))


async def stop_all(pids: set[int]) -> None:
    """TERM, a short wait, KILL: for processes whose step is over."""
    _signal(0, pids, signal.SIGTERM)
    for round_ in range(_KILL_ROUNDS):
        reap(pids)
        pids = _alive(pids)
        if not pids:
            return
        if round_ > 5:
            _signal(0, pids, signal.SIGKILL)
        await asyncio.sleep(0.02)


def reap(pids: set[int]) -> None:
    """Take the exit status of those that became our children, so that they do not stay as zombies."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError, OSError):
            os.waitpid(pid, os.WNOHANG)


def _alive(pids: set[int]) -> set[int]:
    alive: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX":
                alive.add(pid)
    return alive


def _signal(session: int, pids: set[int], number: signal.Signals) -> None:
    if session:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, number)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
