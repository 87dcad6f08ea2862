"""Start a run of a workflow."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.operations.drive import ReadyRun
from podium.operations.parts import Parts
from podium.ports.engine import Notice, RunRequest

NOT_STARTED: Final = (RunStatus.PENDING, RunStatus.APPROVED)


async def check_signed(parts: Parts, request: RunRequest) -> RunRequest:
    """The request with who has signed its plan. Raises what `signed_request` does."""
    if request.signatures is None and parts.signing() is None:
        return request
    from podium.operations.signed_runs import check_request

    return await check_request(parts, request)


def ask_for_approval(parts: Parts, request: RunRequest) -> RunRequest:
    """The request as the rules of its tenant say: its run may have to wait for an approval of its plan."""
    rules = parts.signing()
    tenant = rules.policy.tenants.get(request.tenant_id) if rules is not None else None
    if tenant is None or not tenant.needs_approval(request.plan.metadata.plan_id):
        return request
    return replace(request, needs_approval=True)


async def check_signed_run(parts: Parts, run: Run) -> None:
    """A run that never started is about to: its plan has to be signed as the rules are now."""
    if parts.signing() is not None and run.status in NOT_STARTED:
        from podium.operations.signed_runs import check_before_start

        await check_before_start(parts, run)


async def start_run(
    parts: Parts, request: RunRequest, *, notify: Callable[[Notice], None] | None = None
) -> ReadyRun:
    """Create the run. Raises `RunExists`, and what `Parts.require_needs` and `signed_request` do."""
    request = ask_for_approval(parts, await check_signed(parts, request))
    run_id = await parts.engine().create(request, notify=notify)
    if request.original_run_id is not None:
        from podium.operations.rerunning import carry_files_over

        await carry_files_over(parts, RunId(request.original_run_id), run_id)
    return ReadyRun(run_id)
