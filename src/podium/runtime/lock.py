"""One process drives a run: it locks the run's directory for as long as it lives.

The kernel's lock (`flock`) is authoritative; the JSON in the file tells people and programs which process
holds it. A file without a kernel lock is stale, whatever it says. What it says about the lease allows a
successor on the same host to release the lease of a process that is gone, instead of waiting until it
expires. The lease takes precedence over the lock: a process that gets it because its holder did not renew it
(a frozen process) replaces the file, and the old holder finds out.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.errors import PodiumError
from podium.log.leases import Lease
from podium.runtime.holders import boot_id, describe, start_of

WAIT_SECONDS: Final = 10.0
_REFRESH_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 1.0


class RunLocked(PodiumError):
    """Another process drives the run. `holder` is None if its lock file cannot be read."""

    code = "RUN_LOCKED"

    def __init__(self, run_id: str, holder: str | None) -> None:
        named = holder if holder is not None else "another process"
        super().__init__(f"run {run_id!r} is driven by {named}; wait for it, or `podium cancel {run_id}`")
        self.holder = holder


class RunLock:
    def __init__(self, path: Path, run_id: str) -> None:
        self._path = path
        self._run_id = run_id
        self._file: int | None = None
        self._lease: Lease | None = None
        # The content of the file before we locked it.
        self.before: dict[str, Any] = {}

    async def take(
        self, claim: Callable[[], Awaitable[Lease | None]], *, wait: float = WAIT_SECONDS
    ) -> Lease | None:
        """Take the lock. Returns the lease if it was obtained while a frozen process still holds the lock.

        Raises `RunLocked` if a live process holds it after `wait` seconds.
        """
        deadline = time.monotonic() + wait
        pause = 0.02
        while not self._try():
            lease = await claim()
            if lease is not None:
                self._replace()
                return lease
            if time.monotonic() >= deadline:
                raise RunLocked(self._run_id, self.holder())
            await asyncio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 2, 0.5)
        return None

    def holder(self) -> str | None:
        held = _read(self._path)
        lease = held.get("lease")
        if isinstance(lease, dict) and isinstance(lease.get("owner"), str):
            return describe(lease["owner"])
        return f"process {held['pid']} on {held.get('hostname', 'this host')}" if "pid" in held else None

    def _replace(self) -> None:
        """Replace the file whose holder does not release it by one of our own."""
        self._path.unlink(missing_ok=True)
        self._lock_new_file()

    def _lock_new_file(self) -> None:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)  # another process was faster
            raise
        self._file = file

    def _try(self) -> bool:
        if self._path.is_symlink():  # a step put it there: the link's target is not ours
            self._path.unlink(missing_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
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

    def record_lease(self, lease: Lease) -> None:
        """Write the holder to the file."""
        if self._file is None:
            return
        self._lease = lease
        content_facts = {
            "pid": os.getpid(),
            "timestamp": time.time(),
            "hostname": socket.gethostname(),
            "run_id": self._run_id,
            "started": start_of(os.getpid()),
            "boot_id": boot_id(),
            "lease": msgspec.to_builtins(lease),
        }
        content = msgspec.json.encode(content_facts)
        # One write that covers the old content: a process killed at any point leaves a readable file.
        length = os.fstat(self._file).st_size
        os.pwrite(self._file, content.ljust(length), 0)
        os.ftruncate(self._file, len(content))

    async def refresh(self) -> None:
        """Maintain the file: refresh it periodically, and restore it if it was deleted."""
        refreshed = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._lease is None:
                continue
            if not self.is_held():
                # The kernel's lock on a deleted file excludes no other process; a full disk must not end a
                # run.
                with contextlib.suppress(OSError):
                    self._restore(self._lease)
            elif time.monotonic() - refreshed >= _REFRESH_SECONDS:
                refreshed = time.monotonic()
                self.record_lease(self._lease)

    def _restore(self, lease: Lease) -> None:
        """Does nothing if there is a file: it belongs to the process that has put it there."""
        deleted = self._file
        self._lock_new_file()
        self.record_lease(lease)
        if deleted is not None:
            os.close(deleted)

    def is_held(self) -> bool:
        """Whether the file is still ours: another process that got the lease has replaced it."""
        return self._file is not None and self._is_current(self._file)

    def lease_before(self) -> Lease | None:
        """The lease of the process that held the lock before and is gone; None if it is unknown."""
        lease = self.before.get("lease")
        if lease is None or self.before.get("hostname") != socket.gethostname():
            return None
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(lease, Lease)
        return None

    def release(self) -> None:
        if self._file is not None:
            if self.is_held():
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


async def no_lease() -> Lease | None:
    """For a process that only reads, or writes views."""
    return None
