"""One process drives a run: a lock on its directory, as long as the process lives.

The kernel's lock (`flock`) is what holds; the JSON in the file tells people and programs who holds it. A lock whose
kernel lock is free is stale, whatever the file says. What it says about the lease lets a successor on the same host
release the lease of a process that is gone, instead of waiting until it lapses.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.errors import PodiumError
from podium.model.leases import Lease

WAIT_SECONDS: Final = 10.0


class RunLocked(PodiumError):
    """Another process drives the run."""

    code = "RUN_LOCKED"


class RunLock:
    def __init__(self, path: Path, run_id: str) -> None:
        self._path = path
        self._run_id = run_id
        self._file: int | None = None
        # What the file said before we had it.
        self.before: dict[str, Any] = {}

    async def take(self, *, wait: float = WAIT_SECONDS) -> None:
        """Raises `RunLocked` if somebody still holds it after so many seconds."""
        deadline = time.monotonic() + wait
        pause = 0.02
        while not self._try():
            if time.monotonic() >= deadline:
                holder = _read(self._path)
                who = f"process {holder.get('pid', '?')} on {holder.get('hostname', 'this host')}"
                raise RunLocked(
                    f"run {self._run_id!r} is driven by {who}; wait for it, or `podium cancel {self._run_id}`"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _try(self) -> bool:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        if not self._is_current(file):
            # Its holder removed it between our opening and locking it.
            os.close(file)
            return False
        self._file = file
        self.before = _read(self._path)
        return True

    def _is_current(self, file: int) -> bool:
        try:
            return os.fstat(file).st_ino == self._path.stat().st_ino
        except FileNotFoundError:
            return False

    def tell(self, lease: Lease) -> None:
        """Write down who holds it."""
        assert self._file is not None
        told = {
            "pid": os.getpid(),
            "timestamp": time.time(),
            "hostname": socket.gethostname(),
            "run_id": self._run_id,
            "started": _start_of(os.getpid()),
            "boot_id": _boot_id(),
            "lease": msgspec.to_builtins(lease),
        }
        content = msgspec.json.encode(told)
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))

    def lease_before(self) -> Lease | None:
        """The lease of the process that held the lock before and is gone; None if nothing is known of it."""
        lease = self.before.get("lease")
        if lease is None or self.before.get("boot_id") != _boot_id():
            return None
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(lease, Lease)
        return None

    def give(self) -> None:
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _start_of(pid: int) -> int:
    """When a process began, in ticks since boot: with the pid, its name."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
