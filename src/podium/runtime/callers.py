"""Identity of the caller: the user of the operating system, and whether a run started the calling process.

A step must not decide about its own run. Its processes descend from the run's driver (a subreaper: orphans
become its children, so that detaching from the parent does not help), and they and their ancestors have the
run's id in the environment they were started with.
"""

import os
import pwd
import socket
from collections.abc import Iterator
from typing import Final, NamedTuple

from podium.runtime import holders
from podium.runtime.tasks import proc

_MARK: Final = "PODIUM_RUN_ID"


class Caller(NamedTuple):
    user: str
    uid: int
    # Pid and start time of every ancestor process.
    ancestors: frozenset[tuple[int, int]] = frozenset()
    # The run ids in its environment and in those of its ancestors.
    runs: frozenset[str] = frozenset()


def os_user() -> tuple[str, int]:
    """Name and id of the user that this process runs as."""
    uid = os.getuid()
    return user_name(uid), uid


def this_caller() -> Caller:
    user, uid = os_user()
    above = list(_above(os.getpid()))
    carried = {os.environ.get(_MARK, ""), *(proc.variable(process.pid, _MARK) for process in above)}
    ancestors = frozenset((process.pid, process.began) for process in above)
    return Caller(user, uid, ancestors, frozenset(carried - {""}))


def reason_to_refuse(caller: Caller, run_id: str, owner: str | None) -> str | None:
    """Why the caller belongs to the run; None if it does not. `owner`: the owner of the run's lease."""
    if run_id in caller.runs:
        return f"this process has {_MARK}={run_id} in its environment or in that of a process that started it"
    holder = holders.holder_of(owner) if owner is not None else None
    if holder is None or (holder.host, holder.boot) != (socket.gethostname(), holders.boot_id()):
        return None
    if (holder.pid, holder.began) not in caller.ancestors:
        return None
    return f"this process was started by process {holder.pid}, which drives the run"


def _above(pid: int) -> Iterator[proc.Seen]:
    seen = proc.look(pid)
    while seen is not None and seen.parent > 1:
        seen = proc.look(seen.parent)
        if seen is not None:
            yield seen


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
