"""What was changed in steps by INJECT_OVERRIDE and UPDATE_TARGET: which change an attempt gets.

A change belongs to the path that the signal named. `Deploy[2]/Build` is that one instance. A path without marks,
`Deploy/Build`, is the step wherever it runs: in every iteration and every further try of what is around it. An attempt
gets what is known when it is launched, and keeps it: the log says with which changes it started.
"""

from podium.machine.agenda import Agenda
from podium.machine.tree import Visit
from podium.plan.changes import StepChange
from podium.plan.loading import plan_path
from podium.plan.plan import Step


def change_of(m: Agenda, path: str) -> StepChange | None:
    """For an attempt that is launched now: that of the step, then that of the instance."""
    if not m.changes:
        return None
    plain = plan_path(path)
    everywhere, here = m.changes.get(plain), m.changes.get(path) if path != plain else None
    if everywhere is None or here is None:
        return everywhere or here
    return everywhere.then(here)


def step_of(m: Agenda, visit: Visit) -> Step:
    """The step as an attempt that is launched now gets it."""
    if not m.changes:
        return visit.node.step
    from podium.plan.overrides import changed  # most runs change nothing

    return changed(visit.node.step, change_of(m, visit.path))


def add(m: Agenda, path: str, change: StepChange) -> None:
    before = m.changes.get(path)
    m.changes[path] = change if before is None else before.then(change)
    # What waits for its turn in the line for money may cost less now.
    m.spending.moved = m.spending.moved or bool(m.spending.queue)
