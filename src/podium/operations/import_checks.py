"""Checks of a run that is imported: an export can be written by hand, and its run may continue here.

Whether a run needs an approval also follows from its plan and the rules of its tenant, not only from the
export. If the export says that it was approved or started, the importing person vouches for that, and must be
permitted to approve. Where plans have to be signed, the plan of the run has to be.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from podium.access.operations import IMPORT, SIGNALS
from podium.access.policy import TenantRules
from podium.log.runs import NewRun
from podium.log.transitions import NOT_STARTED, RunStatus, run_status_after
from podium.operations.access import NotAllowed
from podium.operations.parts import Parts
from podium.operations.signed_runs import check_imported
from podium.plan.loading import read_plan
from podium.runtime.plan_file import PLAN


def with_approval_of_plan(new: NewRun, event_types: Sequence[str], contents: Mapping[str, bytes]) -> NewRun:
    """A run that has not started needs the approval that its plan requires, whatever else the export says."""
    if new.needs_approval or PLAN not in contents or status_after(event_types) not in NOT_STARTED:
        return new
    return replace(new, needs_approval=read_plan(contents[PLAN]).approval == "required")


async def check_import(
    parts: Parts, new: NewRun, event_types: Sequence[str], contents: Mapping[str, bytes]
) -> NewRun:
    """The run in the form in which the rules of its tenant permit it. Raises `NotAllowed`, and what
    `check_imported` raises.
    """
    rules, tenant_id = parts.signing(), new.identity.tenant_id
    status = status_after(event_types)
    if rules is None or status is RunStatus.COMPLETED:
        return new
    await check_imported(parts, new.identity, contents)
    if not (new.needs_approval or _is_listed(rules.policy.tenants.get(tenant_id), new, contents)):
        return new
    if status is RunStatus.PENDING:
        return replace(new, needs_approval=True)
    await _require_approver(parts, new)
    return new


def status_after(event_types: Sequence[str]) -> RunStatus:
    status = RunStatus.PENDING
    for event_type in event_types:
        # The store refuses an impossible event.
        status = run_status_after(status, event_type) or status
    return status


def _is_listed(rules: TenantRules | None, new: NewRun, contents: Mapping[str, bytes]) -> bool:
    if rules is None:
        return False
    plan = read_plan(contents[PLAN]) if PLAN in contents else None
    named = [plan.metadata.plan_id] if plan is not None else []
    is_required = plan is not None and plan.approval == "required"
    return is_required or any(rules.needs_approval(one) for one in (new.identity.plan_id, *named))


async def _require_approver(parts: Parts, new: NewRun) -> None:
    access, tenant_id, run_id = parts.access(), new.identity.tenant_id, new.identity.run_id
    if access.decide(SIGNALS["APPROVE"], tenant_id) is None:
        return
    refusal = NotAllowed(
        f"the export says that the plan of run {run_id!r} was approved; importing it vouches for that and needs the "
        f"role 'approver', which {access.actor.name!r} does not have in tenant {tenant_id!r}. Let an approver import "
        "it, or start the workflow again"
    )
    await parts.store.record_audit(
        [access.draft(parts.clock, IMPORT.name, tenant_id, refusal, run_id=run_id)]
    )
    raise refusal
