"""Process families: all processes that a step has started, and how they are ended without leaving anything
behind.

A family is the step's main process and its descendants. Processes whose parents have ended become our
children; they are recognized by the session of the main process, or by the run and the visit in their
environment, because tool shells of real agents run in sessions of their own. A process with neither (its own
session, an emptied environment, and no parent) cannot be distinguished from a child that other code in this
process has started, and is left alone.

To stop a family, TERM is sent to every member, including those that appear later; after a grace period KILL
is sent repeatedly until none is left.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from podium.runtime.tasks import proc
from podium.runtime.tasks.proc import Seen
from podium.runtime.tasks.processes import Child, awaited

GRACE_SECONDS: Final = 5.0
# A process that survives KILL is waiting for a device; waiting for it forever is pointless.
_LAST_SECONDS: Final = 30.0
_STRAY_SECONDS: Final = 1.0
_LOOKS: Final = 100
_TRIES_PER_ROUND: Final = 20


class Family:
    def __init__(self, run_id: str, visit: str | None, main: int | None = None) -> None:
        self._main = main
        self._marks = [f"PODIUM_RUN_ID={run_id}".encode()]
        if visit is not None:
            self._marks.append(f"PODIUM_VISIT={visit}".encode())
        # Members that were seen alive: once they have ended and become our children, their environment cannot
        # be read.
        self._known: set[tuple[int, int]] = set()
        # Members that had ended at the last scan: they are not scanned again. A process that forks and exits
        # continuously leaves hundreds of them, and can only be caught by scanning faster.
        self._gone: dict[int, Seen] = {}

    def members(self) -> list[Seen]:
        """The live members. Also takes the exit status of those that have ended and are our children.

        A process that forks and exits during the scan may be in neither of two places: the family is only
        empty if two consecutive scans have seen the same orphans. If they never do, the newest scan is used.
        """
        seen: list[Seen] = []
        before: set[tuple[int, int]] | None = None
        for _ in range(_LOOKS):
            seen = orphans(self._gone)
            self._gone = {orphan.pid: orphan for orphan in seen if orphan.is_gone}
            alive = self._alive_among(seen)
            now = {(orphan.pid, orphan.began) for orphan in seen}
            if alive or not now or now == before:
                return alive
            before = now
        return seen[-1:]

    def _alive_among(self, seen: list[Seen]) -> list[Seen]:
        found: set[int] = set()
        if self._main is not None and self._main in awaited:
            found = {self._main} | proc.descendants(self._main)
        ending: list[Seen] = []
        for orphan in seen:
            if orphan.pid in found:
                continue
            if orphan.is_gone:
                if self._is_known(orphan):
                    reap(orphan.pid)
            elif not self._has(orphan):
                now = proc.look(orphan.pid)
                if now is not None and now.is_ending and not now.is_gone:
                    # Its family can no longer be determined, and it may have a child of ours: wait until it
                    # is gone.
                    ending.append(now)
            else:
                found |= {orphan.pid} | proc.descendants(orphan.pid)
        looked_at = [process for process in map(proc.look, found) if process is not None]
        self._known |= {(process.pid, process.began) for process in looked_at if process.pid != self._main}
        return [process for process in (*looked_at, *ending) if not process.is_gone]

    def _has(self, orphan: Seen) -> bool:
        return self._is_known(orphan) or proc.has_in_environment(orphan.pid, self._marks)

    def _is_known(self, orphan: Seen) -> bool:
        in_session = self._main is not None and orphan.session == self._main
        return in_session or (orphan.pid, orphan.began) in self._known


def orphans(gone: Mapping[int, Seen] = MappingProxyType({})) -> list[Seen]:
    """Our children that no code waits for, newest last. Those known to have ended are not examined."""
    if not awaited:
        # The usual case of sequential steps: no children at all, which a single call shows.
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
    children = [pid for pid in proc.children(os.getpid()) if pid not in awaited]
    seen = (gone.get(pid) or proc.look(pid) for pid in children)
    return [process for process in seen if process is not None]


def reap(pid: int) -> None:
    """Take the exit status of a child that has ended, so that it does not remain a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


class Strays:
    """Takes the exit status of orphans that ended by themselves.

    Except those that may be children that other code in this process waits for: in our session, or the leader
    of a session of its own. Such code waits soon, so a child that has been a zombie for a while is not
    awaited.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[int, int], float] = {}

    def reap(self, *, older_than: float = _STRAY_SECONDS) -> None:
        now = time.monotonic()
        gone = {(orphan.pid, orphan.began): orphan for orphan in orphans() if orphan.is_gone}
        self._since = {key: self._since.get(key, now) for key in gone}
        for key, orphan in gone.items():
            if orphan.session == os.getsid(0):
                continue
            if orphan.session != orphan.pid or now - self._since[key] >= older_than:
                reap(orphan.pid)


async def stop(
    members: Callable[[], list[Seen]],
    *,
    main: Child | None = None,
    forced: Callable[[], bool] = lambda: False,
) -> list[Seen]:
    """End them all; returns those that cannot be ended."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + GRACE_SECONDS
    asked: set[tuple[int, int]] = set()
    pause = 0.002
    while True:
        alive = members()
        if not alive and (main is None or main.ended.done()):
            return []
        out_of_time = loop.time() >= deadline or forced()
        if out_of_time:
            # Without a delay: a process that forks and exits continuously is only caught by being faster.
            kill(members)
        for process in alive if not out_of_time else ():
            if (process.pid, process.began) not in asked:
                asked.add((process.pid, process.began))
                proc.send(process, signal.SIGTERM)
                # A process that was stopped by SIGSTOP reacts to nothing else.
                proc.send(process, signal.SIGCONT)
        if loop.time() > deadline + _LAST_SECONDS:
            return alive
        pause = 0.002 if out_of_time else min(pause * 1.5, 0.05)
        await asyncio.sleep(pause)


def kill(members: Callable[[], list[Seen]]) -> None:
    """Kill immediately, when there is no time to wait."""
    for _ in range(_TRIES_PER_ROUND):
        alive = members()
        if not alive:
            return
        for process in alive:
            proc.send(process, signal.SIGKILL)


def of_run(run_id: str, directory: Path, visit: str | None = None) -> list[Seen]:
    """Every process of this host with that run in its environment, whatever its parent; except our own
    ancestors.

    The directory distinguishes runs with the same id in different folders. With a visit, only the processes
    of that attempt: others of the run may belong to another worker. A warm Python process is found by its
    name, because it was started for another attempt.
    """
    run = [f"PODIUM_RUN_ID={run_id}".encode(), f"PODIUM_RUN_DIR={directory}".encode()]
    spared = proc.ancestors(os.getpid())
    found = [pid for pid in proc.everyone() if pid not in spared and proc.has_in_environment(pid, run)]
    if visit is not None:
        mark, name = [f"PODIUM_VISIT={visit}".encode()], process_name(visit)
        found = [pid for pid in found if proc.name_of(pid) == name or proc.has_in_environment(pid, mark)]
    seen = (proc.look(pid) for pid in found)
    return [process for process in seen if process is not None and not process.is_gone]


def process_name(visit: str) -> str:
    """The name of a process that was not started for the visit but works for it."""
    return f"p-{sha256(visit.encode()).hexdigest()[:13]}"
