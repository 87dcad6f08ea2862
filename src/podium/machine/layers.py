"""How the layers of rules are connected, from the lowest to the highest; none imports one above it.

    holds budgets routing graphs unfinished | attempts | loops | calls | reopening | continuing | stopping | signals

A call upward uses `Agenda.rules`, deferred work the agenda. Both are connected here.
"""

from collections.abc import Callable
from typing import Final

from podium.machine import attempts, calls, continuing, loops, reopening, stopping
from podium.machine.agenda import Agenda, Operation, Rules
from podium.machine.tree import Visit


class _Rules:
    """The calls upward."""

    close_if_empty = staticmethod(stopping.close_if_empty)
    continue_failed = staticmethod(continuing.continue_failed)
    continue_list = staticmethod(continuing.continue_list)
    continue_stopped = staticmethod(continuing.continue_stopped)
    end_workflow = staticmethod(calls.end_workflow)
    ended_late = staticmethod(reopening.ended_late)
    enter = staticmethod(attempts.enter)
    keep = staticmethod(reopening.keep)
    keep_before_force = staticmethod(reopening.keep_before_force)
    keep_cleanup = staticmethod(reopening.keep_cleanup)
    leave_by_goto = staticmethod(loops.leave_by_goto)
    leave_iteration = staticmethod(loops.leave_iteration)
    leave_to_next_opening = staticmethod(continuing.leave_to_next_opening)
    open_call = staticmethod(calls.open_call)
    open_loop = staticmethod(loops.open_loop)
    stop = staticmethod(stopping.stop)
    stop_scopes = staticmethod(stopping.stop_scopes)
    take_up = staticmethod(attempts.take_up)
    try_again = staticmethod(attempts.try_again)


RULES: Final[Rules] = _Rules()
OPERATIONS: Final[dict[Operation, Callable[[Agenda, Visit], None]]] = {
    "begin": attempts.begin,
    "start": attempts.start,
    "leave": attempts.leave,
    "fill": loops.fill,
    "check": loops.check,
    "pass": loops.start_pass,
}
