"""What keeps a run from moving by itself, for views that show many runs: no driver, a slot, an operator's turn.

Whether a failed step waits to be retried, or a step is in doubt, only the machine knows, so it is asked: the log is
folded again. Few plans have such steps; for all others this costs a look at the plan.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.operations.driving import RunDriver, open_driver
from podium.operations.explaining import Reason, reason_for, substatus_of
from podium.operations.parts import Parts
from podium.plan.loading import walk
from podium.plan.plan import Plan
from podium.runtime.plan_approval import waiting_for_approval
from podium.runtime.plan_file import PlanMissing
from podium.runtime.replaying import replayed

_FOR_AN_OPERATOR: Final = frozenset({"operator", "doubt"})


class Obstacles(NamedTuple):
    run: Run
    # Which process drives it, waits with it for a slot, or was the last to drive it.
    driver: RunDriver | None
    # What an operator can do about it, in the words of `explain_run`.
    waits: tuple[Reason, ...]

    @property
    def substatus(self) -> str | None:
        return substatus_of(self.waits)

    def remarks(self) -> Iterator[str]:
        """As `podium why` says it."""
        if self.driver is not None and (self.driver.in_line or not self.driver.is_alive):
            yield self.driver.in_line or self.driver.text()
        for reason in self.waits:
            yield f"{reason.text}; `podium why {self.run.identity.run_id}`"


async def obstacles_of(parts: Parts, run: Run) -> Obstacles:
    return Obstacles(run, await open_driver(parts.store, run), await _waits_for_operator(parts, run))


async def _waits_for_operator(parts: Parts, run: Run) -> tuple[Reason, ...]:
    if run.waits_for_approval:
        return (reason_for(waiting_for_approval(run), run.identity.run_id),)
    if run.status not in (RunStatus.RUNNING, RunStatus.PAUSED):
        return ()
    run_id = run.identity.run_id
    try:
        plan = await parts.plan_of(run)
    except PlanMissing:
        return ()  # of a run that was not started here
    if not _may_wait(plan):
        return ()
    machine = await replayed(parts.store, run_id, plan, parts.values(run_id))
    return tuple(reason_for(one, run_id) for one in machine.obligations() if one.kind in _FOR_AN_OPERATOR)


def _may_wait(plan: Plan) -> bool:
    return any(
        step.on_doubt == "ask" or (step.retry is not None and step.retry.operator)
        for _, step in walk(plan.workflow)
    )
