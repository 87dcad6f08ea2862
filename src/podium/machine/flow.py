"""Where a step's outcome leads in a list of steps: one table, for the machine and for the checks at load.

A handler in the step's `on` block decides, if it names the event. If none does, the block's discipline decides:

| discipline | `on` is absent: success / failure | `on` does not name the event | skipped |
| --- | --- | --- | --- |
| strict | no transition / no transition | no transition | next |
| implied | next / failed | no transition | next |
| compatible | next / next | next | next |
| branch (for_each, parallel, group) | next / failed | no transition: the branch failed | next |
| pass (while, repeat_until) | next / next | no transition: the pass failed | next |
| cleanup (finally) | next / next | next | next |

A timeout is handled as a failure unless `on` names it; a skip as a success unless `on` names it.
"""

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from podium.plan.plan import Discipline, Handlers, Target

Event: TypeAlias = Literal["success", "failure", "timeout", "skipped"]


class Way(StrEnum):
    """What follows if no handler decides."""

    NEXT = "next"
    FAILED = "failed"
    NO_TRANSITION = "no_transition"


# Constants for a check that runs for every step: see `tree.py`.
NEXT: Final = Way.NEXT


# discipline: (success without `on`, failure without `on`, event not named by `on`)
_WAYS: Final[dict[Discipline, tuple[Way, Way, Way]]] = {
    "strict": (Way.NO_TRANSITION, Way.NO_TRANSITION, Way.NO_TRANSITION),
    "implied": (Way.NEXT, Way.FAILED, Way.NO_TRANSITION),
    "compatible": (Way.NEXT, Way.NEXT, Way.NEXT),
    "branch": (Way.NEXT, Way.FAILED, Way.NO_TRANSITION),
    "pass": (Way.NEXT, Way.NEXT, Way.NO_TRANSITION),
    "cleanup": (Way.NEXT, Way.NEXT, Way.NEXT),
    # A graph has no next step: a failure is passed on to the dependants.
    "graph": (Way.NEXT, Way.FAILED, Way.NEXT),
}


def way_on(discipline: Discipline, on: Handlers | None, event: Event) -> Target | Way:
    """The handler's target, or the default of the discipline."""
    if on is not None:
        target = _handler(on, event)
        if target is not None:
            return target
    if event == "skipped":
        return Way.NEXT
    success, failure, unnamed = _WAYS[discipline]
    if on is not None and discipline != "graph":
        return unnamed
    return success if event == "success" else failure


def _handler(on: Handlers, event: Event) -> Target | None:
    match event:
        case "success":
            return on.success
        case "failure":
            return on.failure
        case "timeout":
            return on.timeout if on.timeout is not None else on.failure
        case "skipped":
            return on.skipped if on.skipped is not None else on.success
