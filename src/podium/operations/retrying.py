"""RETRYING: a failed step waits for an operator to retry or skip it (`retry: {operator: SECONDS}`).

Only the machine knows, so it is asked: the log is folded again. Few plans have such steps; for all others this costs
a look at the plan.
"""

from pathlib import Path
from typing import Final

from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.plan.loading import walk
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.runtime.kept_plan import PlanMissing, load_plan
from podium.runtime.replaying import replayed
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import MakeFolder, values_of

RETRYING: Final = "RETRYING"


async def retrying(store: Store, run: Run, runs: Path, payloads: MakeFolder) -> str | None:
    """The substatus of a run in which a step waits for an operator; None of any other."""
    if run.status is not RunStatus.RUNNING:
        return None
    directory = RunDirectory(runs, run.identity.run_id)
    try:
        plan = await load_plan(store, directory, run)
    except PlanMissing:
        return None  # of a run that was not started here
    if not _has_windows(plan):
        return None
    machine = await replayed(
        store, run.identity.run_id, plan, values_of(store, run.identity.run_id, directory, payloads)
    )
    return RETRYING if any(one.kind == "operator" for one in machine.obligations()) else None


def _has_windows(plan: Plan) -> bool:
    return any(step.retry is not None and step.retry.operator for _, step in walk(plan.workflow))
