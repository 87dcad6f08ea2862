"""What each engine supports. The tables of docs/engines.md are generated from it.

native     exactly as the language defines it
emulated   the same outcome by other means, at a cost
degraded   part of it
none       not supported
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from podium.log.engines import CONDUCTOR, LOCAL, TEMPORAL


class Support(StrEnum):
    NATIVE = "native"
    EMULATED = "emulated"
    DEGRADED = "degraded"
    NONE = "none"


class Cell(msgspec.Struct, frozen=True):
    """An engine's support for one capability."""

    support: Support
    reason: str


class EngineSupport(msgspec.Struct, frozen=True):
    name: str
    cells: Mapping[str, Cell]
    # For `max_parallel`: how many tasks of a run it executes concurrently; None: as many as the plan says.
    max_parallel: int | None = None


# A description of each capability.
CAPABILITIES: Final[Mapping[str, str]] = {
    "basic-execution": "steps in order, with conditions, retries and `finally`",
    "signal.pause": "a run is paused and resumed; running steps finish",
    "signal.cancel.cooperative": "a run is cancelled; running steps are asked to end",
    "signal.cancel.forced": "a run is cancelled; running steps are killed",
    "signal.retry-step": "a step that failed is carried out again",
    "flow.goto": "a step names the one that follows",
    "flow.parallel": "several steps at the same time",
    "flow.for-each.dynamic": "steps for each item of a list that is known when the run gets there",
    "flow.while": "steps until a condition holds",
    "flow.join.any": "branches that are not waited for once enough have ended",
    "timer": "limits, pauses between attempts",
    "approval": "a person decides",
    "history.rotation": "runs of any length",
    "query.state": "the state of a run is shown while it runs",
    "replay": "the decisions of a run are repeated from its log",
    "budget": "limits of tokens and dollars",
}

_BY_THE_MACHINE: Final = Cell(Support.NATIVE, "decided by the machine, which all engines share")


def _native(reason: str) -> Cell:
    return Cell(Support.NATIVE, reason)


_LOCAL: Final = EngineSupport(
    LOCAL,
    {
        **dict.fromkeys(CAPABILITIES, _BY_THE_MACHINE),
        "signal.cancel.forced": _native("the process that drives the run kills the processes of its steps"),
        "timer": _native(
            "timers of the process that drives the run; those that passed fire when it is resumed"
        ),
        "history.rotation": _native("the log has no limit, and a checkpoint is kept beside it"),
        "query.state": _native("read from the store"),
    },
)
_TEMPORAL: Final = EngineSupport(
    TEMPORAL,
    {
        **dict.fromkeys(CAPABILITIES, _BY_THE_MACHINE),
        "signal.cancel.cooperative": _native("the worker of a step learns of it within a second"),
        "signal.cancel.forced": _native(
            "an activity on the host of the run kills the processes of its steps"
        ),
        "flow.parallel": _native("one activity for each attempt of a step"),
        "timer": _native("timers of the server"),
        "history.rotation": _native("continues as a new execution at a moment without a running step"),
        "query.state": _native("read from the store, never from the server"),
    },
    # Half of the 2,000 open activities that a server allows per execution, so that there is always room for
    # probes and for attempts that are being ended.
    max_parallel=1000,
)

_CONDUCTOR: Final = EngineSupport(
    CONDUCTOR,
    {
        **dict.fromkeys(CAPABILITIES, _BY_THE_MACHINE),
        "signal.cancel.cooperative": _native("the worker of a step learns of it from the log"),
        "signal.cancel.forced": _native(
            "the worker of a step kills its processes when it reads the log next"
        ),
        "flow.parallel": _native("in the slots of the worker that decides, and of all others"),
        "timer": _native(
            "timers of the worker that decides; the server wakes the run for those that are far away"
        ),
        "history.rotation": _native("not needed: an execution has one task, however long the run is"),
        "query.state": _native("read from the store, never from the server"),
    },
)

ENGINES: Final[Mapping[str, EngineSupport]] = {one.name: one for one in (_LOCAL, _TEMPORAL, _CONDUCTOR)}
