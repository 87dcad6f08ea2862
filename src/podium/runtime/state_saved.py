"""What `state.json` is folded from so far, as data: part of a checkpoint, so that a resumed run folds only the tail."""

from typing import Any

import msgspec

from podium.log.times import Timestamp


class SavedIteration(msgspec.Struct, array_like=True):
    index: int
    item: Any
    status: str
    counted: bool
    nodes: "dict[str, SavedNode]"


class SavedLoop(msgspec.Struct, array_like=True):
    # Names the loop within one checkpoint: `SavedState.inner` refers to it.
    number: int
    kept: list[SavedIteration]
    ended: list[int]
    old_failures: int
    started: int
    statuses: dict[str, int]
    # The newest iteration: its index, or itself if it is not among those kept.
    last: int | SavedIteration | None
    summary: dict[str, Any] | None


class SavedNode(msgspec.Struct, array_like=True):
    facts: dict[str, Any]
    attempt: int
    visits: int
    usage: dict[str, float] | None
    same_visit: bool
    inside: int
    since: int
    loop: SavedLoop | None
    bodies: "dict[str, dict[str, SavedNode]]"


class SavedInner(msgspec.Struct, array_like=True):
    """Iterations of inner loops in the order they ended: the number of the loop, and the index.

    A loop that is not shown any more has the number -1; then the index says only whether the iteration failed.
    """

    ended: list[tuple[int, int]]
    old_failures: list[tuple[int, int]]


class SavedState(msgspec.Struct):
    # The newest record that was folded.
    run_seq: int
    top: dict[str, Any]
    main: dict[str, SavedNode]
    cleanup: dict[str, SavedNode] | None
    inner: SavedInner
    decided: dict[str, str]
    started: list[tuple[str, int, Timestamp]]
    running: list[str]
    asking: list[str]
    paused: bool
    ended: bool
