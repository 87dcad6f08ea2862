"""The progress of an open run, as the machine knows it: what it waits for, and how much of its loops is done."""

from collections.abc import Iterator, Sequence

import msgspec

from podium.machine.obligations import Obligation
from podium.machine.tree import Visit


class LoopProgress(msgspec.Struct, frozen=True, gc=False):
    """An open loop or fan-out."""

    path: str
    # 0 if not known before its end.
    total: int
    done: int
    failed: int


class Progress(msgspec.Struct, frozen=True):
    owed: Sequence[Obligation]
    # Outer ones first.
    loops: Sequence[LoopProgress] = ()


def open_loops(root: Visit | None) -> Iterator[LoopProgress]:
    """The cost depends on what is open, not on how many items are done."""
    pending = [root] if root is not None else []
    while pending:
        visit = pending.pop()
        loop = visit.loop
        if loop is not None and (loop.total > 1 or loop.total == 0):
            done = loop.completed + loop.failed + loop.skipped + loop.cancelled
            yield LoopProgress(visit.path, loop.total, done, loop.failed)
        pending += [inner for scope in reversed(visit.scopes.values()) for inner in scope.live.values()]
