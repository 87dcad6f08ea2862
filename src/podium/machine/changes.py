"""Changes to steps by INJECT_OVERRIDE and UPDATE_TARGET: which change applies to an attempt.

A change belongs to the path that the signal named. `Deploy[2]/Build` is that one instance. A path without
marks, `Deploy/Build`, is the step wherever it runs: in every iteration and every further attempt of what is
around it. An attempt gets the changes known when it is launched and keeps them: the log says with which
changes it started.
"""

from podium.machine.agenda import Agenda
from podium.machine.tree import Visit
from podium.plan.changes import StepChange
from podium.plan.loading import plan_path
from podium.plan.plan import Step


def change_of(m: Agenda, path: str) -> StepChange | None:
    """The change for an attempt that is launched now: the step's, merged with the instance's."""
    if not m.changes:
        return None
    plain = plan_path(path)
    everywhere, here = m.changes.get(plain), m.changes.get(path) if path != plain else None
    if everywhere is None or here is None:
        return everywhere or here
    return everywhere.then(here)


def step_of(m: Agenda, visit: Visit) -> Step:
    """The step as an attempt that is launched now would execute it."""
    if not m.changes:
        return visit.node.step
    from podium.plan.overrides import changed  # most runs change nothing

    return changed(visit.node.step, change_of(m, visit.path))


def add(m: Agenda, path: str, change: StepChange) -> None:
    before = m.changes.get(path)
    m.changes[path] = change if before is None else before.then(change)
    # Agents in the budget queue may cost less now.
    m.spending.moved = m.spending.moved or bool(m.spending.queue)
