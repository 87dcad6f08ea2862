"""Starts a run of a workflow."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import NOT_STARTED
from podium.operations.drive import ReadyRun
from podium.operations.parts import Parts
from podium.ports.engine import Notice, RunRequest

if TYPE_CHECKING:
    from podium.access.operations import OperationName


async def check_signed(parts: Parts, request: RunRequest) -> RunRequest:
    """The request with the signers of its plan. Raises what `signed_request` raises."""
    if request.signatures is None and parts.signing() is None:
        return request
    from podium.operations.signed_runs import check_request

    return await check_request(parts, request)


def ask_for_approval(parts: Parts, request: RunRequest) -> RunRequest:
    """The request according to the rules of its tenant: its run may have to wait for an approval of its plan."""
    rules = parts.signing()
    tenant = rules.policy.tenants.get(request.tenant_id) if rules is not None else None
    if tenant is None or not tenant.needs_approval(request.plan.metadata.plan_id):
        return request
    return replace(request, needs_approval=True)


async def check_signed_run(parts: Parts, run: Run) -> None:
    """Called before a run starts for the first time: its plan has to be signed as the current rules require."""
    if parts.signing() is not None and run.status in NOT_STARTED:
        from podium.operations.signed_runs import check_before_start

        await check_before_start(parts, run)


async def start_run(
    parts: Parts, request: RunRequest, *, notify: Callable[[Notice], None] | None = None
) -> ReadyRun:
    """Create the run. Raises `RunExists`, and what `Parts.require`, `Parts.require_needs` and
    `signed_request` raise.
    """
    if not parts.is_owner:
        await may_start(parts, request.tenant_id, again=request.original_run_id is not None)
    request = await prepared_request(parts, request)
    run_id = await parts.engine().create(request, notify=notify)
    if request.original_run_id is not None:
        from podium.operations.rerunning import carry_files_over

        await carry_files_over(parts, RunId(request.original_run_id), run_id)
    return ReadyRun(run_id)


async def prepared_request(parts: Parts, request: RunRequest) -> RunRequest:
    """The request as the rules require: with its signers, an approval if necessary, and the record of the
    permission.
    """
    operation: OperationName = "run.start" if request.original_run_id is None else "run.rerun"
    await parts.require_project(operation, request.tenant_id, request.project_id)
    request = ask_for_approval(parts, await check_signed(parts, request))
    return request if parts.is_owner else _recorded(parts, request)


async def may_start(parts: Parts, tenant_id: str, *, again: bool = False) -> None:
    """Raises what `Parts.require` raises, before anything is prepared. `again`: repeats an earlier run."""
    await parts.require("run.rerun" if again else "run.start", tenant_id, records=False)


def _recorded(parts: Parts, request: RunRequest) -> RunRequest:
    """With an id and the record of the permission, which is stored together with the run."""
    from hashlib import sha256
    from uuid import uuid4

    from podium.plan.loading import plan_bytes

    run_id = request.run_id or str(uuid4())
    plan = sha256(request.plan_content or plan_bytes(request.plan)).hexdigest()
    operation: OperationName = "run.rerun" if request.original_run_id is not None else "run.start"
    audit = parts.accepted(operation, request.tenant_id, run_id, plan)
    return replace(request, run_id=run_id, audit=(*request.audit, *audit))
