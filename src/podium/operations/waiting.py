"""What keeps a run from continuing, for views that show many runs: no driver, a slot, an operator's turn.

Only the machine knows whether a failed step waits to be retried, or a step is in doubt, so the log is folded
again. Few plans have such steps; for all others only the plan is examined.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from podium.log.runs import Run, RunQuery
from podium.log.transitions import IN_PROGRESS, NOT_STARTED, RunStatus
from podium.machine.obligations import FOR_A_PERSON
from podium.operations.driving import RunDriver, open_driver
from podium.operations.explaining import Reason, reason_for, substatus_of
from podium.operations.parts import Parts
from podium.plan.loading import walk
from podium.plan.plan import Approval, Plan
from podium.runtime.plan_approval import waiting_for_approval
from podium.runtime.plan_file import PlanMissing

_FOR_AN_OPERATOR: Final = frozenset({"operator", "doubt"})
# Of runs that may wait for a person.
_MAY_WAIT: Final = IN_PROGRESS | {RunStatus.PENDING}
# Runs that are examined for one answer.
_PAGE: Final = 50
_MAX_PAGES: Final = 20


class Obstacles(NamedTuple):
    run: Run
    # The process that drives it, waits with it for a slot, or was the last to drive it.
    driver: RunDriver | None
    # What an operator can do about it, in the words of `explain_run`.
    waits: tuple[Reason, ...]

    @property
    def substatus(self) -> str | None:
        return substatus_of(self.waits)

    def remarks(self) -> Iterator[str]:
        """In the words of `podium why`."""
        if self.driver is not None and (self.driver.in_line or not self.driver.is_alive):
            yield self.driver.in_line or self.driver.text()
        for reason in self.waits:
            yield f"{reason.text}; `podium why {self.run.identity.run_id}`"


async def obstacles_of(parts: Parts, run: Run) -> Obstacles:
    return Obstacles(run, await open_driver(parts.store, run), await _waits_for_operator(parts, run))


async def _waits_for_operator(parts: Parts, run: Run) -> tuple[Reason, ...]:
    if run.waits_for_approval:
        return (reason_for(waiting_for_approval(run), run.identity.run_id),)
    return await _waits(parts, run, _may_wait, _FOR_AN_OPERATOR)


async def _waits(
    parts: Parts, run: Run, may_wait: Callable[[Plan], bool], kinds: frozenset[str]
) -> tuple[Reason, ...]:
    """What a running run waits for, of these kinds. The log is read only if its plan has such steps."""
    if run.status not in IN_PROGRESS:
        return ()
    run_id = run.identity.run_id
    try:
        plan = await parts.plan_of(run)
    except PlanMissing:
        return ()  # of a run that was not started here
    if not may_wait(plan):
        return ()
    machine = await parts.machine_of(parts.store, run_id, plan, parts.values(run_id))
    return tuple(reason_for(one, run_id) for one in machine.obligations() if one.kind in kinds)


async def needing(
    parts: Parts, tenant_id: str, query: RunQuery, needs: str
) -> tuple[list[Obstacles], str | None]:
    """Runs that wait for a person, or for an approval only; and the cursor after the last one that was
    examined.

    Only the log says what a step waits for, so a bounded number of open runs is examined for each page.
    """
    statuses = (query.statuses or _MAY_WAIT) & _MAY_WAIT
    query = replace(query, statuses=statuses, limit=min(query.limit, _PAGE))
    found: list[Obstacles] = []
    if not statuses:
        return found, None
    for _ in range(_MAX_PAGES):
        page = await parts.store.runs.page(tenant_id, query)
        for run in page.runs:
            waits = await _waits_for_person(parts, run, approval_only=needs == "approval")
            if waits:
                found.append(Obstacles(run, await open_driver(parts.store, run), waits))
        if page.cursor is None or len(found) >= query.limit:
            return found, page.cursor
        query = replace(query, cursor=page.cursor)
    return found, query.cursor


async def _waits_for_person(parts: Parts, run: Run, *, approval_only: bool) -> tuple[Reason, ...]:
    if run.status in NOT_STARTED:
        return await _waits_for_operator(parts, run)
    if approval_only:
        return await _waits(parts, run, _asks, frozenset({"approval"}))
    return await _waits(parts, run, _may_need_person, FOR_A_PERSON)


def _may_need_person(plan: Plan) -> bool:
    return _asks(plan) or _may_wait(plan)


def _asks(plan: Plan) -> bool:
    return any(isinstance(step.body, Approval) for _, step in walk(plan.workflow))


def _may_wait(plan: Plan) -> bool:
    return any(
        step.on_doubt == "ask" or (step.retry is not None and step.retry.operator)
        for _, step in walk(plan.workflow)
    )
