"""What a run waits for from an operator, for views that show many runs: a failed step to retry, a step in doubt.

Only the machine knows, so it is asked: the log is folded again. Few plans have such steps; for all others this costs
a look at the plan.
"""

from pathlib import Path
from typing import Final

from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.operations.explaining import Reason, reason_for
from podium.plan.loading import walk
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.runtime.plan_file import PlanMissing, load_plan
from podium.runtime.replaying import replayed
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import MakeFolder, values_of

_FOR_AN_OPERATOR: Final = frozenset({"operator", "doubt"})


async def waits_for_operator(store: Store, run: Run, runs: Path, payloads: MakeFolder) -> tuple[Reason, ...]:
    """In the words of `explain_run`; empty for a run that waits for no operator."""
    if run.status not in (RunStatus.RUNNING, RunStatus.PAUSED):
        return ()
    run_id, directory = run.identity.run_id, RunDirectory(runs, run.identity.run_id)
    try:
        plan = await load_plan(store, directory, run)
    except PlanMissing:
        return ()  # of a run that was not started here
    if not _may_wait(plan):
        return ()
    machine = await replayed(store, run_id, plan, values_of(store, run_id, directory, payloads))
    return tuple(reason_for(one, run_id) for one in machine.obligations() if one.kind in _FOR_AN_OPERATOR)


def _may_wait(plan: Plan) -> bool:
    return any(
        step.on_doubt == "ask" or (step.retry is not None and step.retry.operator)
        for _, step in walk(plan.workflow)
    )
