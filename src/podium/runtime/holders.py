"""The holder of a lease: the lease's owner names a process, so that other processes on this host can check
whether it still exists.

A process is identified by its host, the boot and namespace its pid belongs to, the pid, and its start time,
because pids are reused. A run of another engine is held by its workflow there, which is never considered
gone. What cannot be checked (another host, another container) is never considered gone, either: its lease
expires.
"""

import os
import socket
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from podium.runtime.tasks import proc

_PARTS: Final = 6
# Separates the name of an engine from its workflow. No host name contains it.
_OF_ENGINE: Final = "/"
_STOPPED: Final = "Tt"
_POOL: Final = "pool"


class Holder(msgspec.Struct, frozen=True):
    host: str
    pid: int
    began: int
    boot: str
    namespace: str


def new_owner() -> str:
    """A unique owner name for a lease of this process."""
    return ":".join(map(str, (*msgspec.structs.astuple(_this_process()), uuid4().hex[:8])))


def workflow_owner(provider: str, workflow_id: str) -> str:
    """The owner name for a run that a workflow of another engine drives: the same in every process."""
    return f"{provider}{_OF_ENGINE}{workflow_id}"


def pool_owner(pool: str) -> str:
    """The owner name for the workers of a pool."""
    return f"{_POOL}{_OF_ENGINE}{pool}"


def holder_of(owner: str) -> Holder | None:
    """None if the owner does not name a process."""
    if _OF_ENGINE in owner:
        return None
    parts = owner.split(":")
    if len(parts) != _PARTS or not (parts[1].isascii() and parts[1].isdigit() and parts[2].isdigit()):
        return None
    return Holder(parts[0], int(parts[1]), int(parts[2]), parts[3], parts[4])


def describe(owner: str) -> str:
    holder = holder_of(owner)
    if holder is None:
        provider, is_workflow, workflow_id = owner.partition(_OF_ENGINE)
        if provider == _POOL and is_workflow:
            return f"the hosts of pool {workflow_id!r}"
        return f"{provider.title()} workflow {workflow_id!r}" if is_workflow else f"the holder {owner!r}"
    frozen = ", which is stopped (`kill -CONT` lets it continue)" if is_stopped(owner) else ""
    return f"process {holder.pid} on {holder.host}{frozen}"


def is_gone(owner: str) -> bool:
    """Whether its process has certainly ended."""
    holder = holder_of(owner)
    if holder is None or holder.host != socket.gethostname():
        return False
    if holder.boot != boot_id():
        return True
    return holder.namespace == _pid_namespace() and _process(holder) is None


def is_alive_here(owner: str) -> bool:
    """Whether its process certainly exists, on this host."""
    holder = holder_of(owner)
    return holder is not None and _is_visible(holder) and _process(holder) is not None


def is_stopped(owner: str) -> bool:
    """Whether its process exists on this host and is stopped: SIGSTOP, a debugger."""
    holder = holder_of(owner)
    seen = _process(holder) if holder is not None and _is_visible(holder) else None
    return seen is not None and seen.state in _STOPPED


def _is_visible(holder: Holder) -> bool:
    here = (socket.gethostname(), boot_id(), _pid_namespace())
    return (holder.host, holder.boot, holder.namespace) == here


def _process(holder: Holder) -> proc.Seen | None:
    seen = proc.look(holder.pid)
    return seen if seen is not None and seen.began == holder.began and not seen.is_gone else None


def _this_process() -> Holder:
    pid = os.getpid()
    return Holder(socket.gethostname(), pid, _own_start(pid), boot_id(), _pid_namespace())


@cache
def _own_start(pid: int) -> int:
    """Cached per process, including forks: a worker needs it for every attempt."""
    return start_of(pid)


def start_of(pid: int) -> int:
    """When a process started, in ticks since boot: together with the pid it identifies the process."""
    seen = proc.look(pid)
    return seen.began if seen is not None else 0


def process_space() -> str:
    """The scope of a pid, within which it is unique at any time, but may be reused after a process has ended."""
    return f"{boot_id()}:{_pid_namespace()}"


@cache
def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def _pid_namespace() -> str:
    """Pids are only unique within it: containers have their own."""
    try:
        return Path("/proc/self/ns/pid").readlink().name.removeprefix("pid:").strip("[]")
    except OSError:
        return ""
