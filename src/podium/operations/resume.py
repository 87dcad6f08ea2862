"""Resumes a run that was interrupted, paused, cancelled, has failed, or is out of budget (D31).

All checks are made before anything about the run changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from podium.errors import RunNotApproved
from podium.log.runs import Run
from podium.log.transitions import TERMINAL, RunStatus
from podium.operations.drive import ReadyRun
from podium.operations.driving import driver_of
from podium.operations.env_files import EnvFile, files_of_run
from podium.operations.inputs import InvalidInput
from podium.operations.parts import Parts
from podium.operations.pausing import is_paused
from podium.operations.start import check_signed_run
from podium.plan.plan import Plan
from podium.runtime.ends import last_end
from podium.runtime.other_engines import OtherEngine, is_elsewhere
from podium.runtime.workspaces import check_workspace, move_workspace, workspace_of
from podium.text import visible

if TYPE_CHECKING:
    from podium.operations.access import Access


_BUDGET_REASON: Final = "podium resume --budget"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement for the workflow of a run. `force`: even if its structure differs."""

    plan: Plan
    source: bytes
    force: bool = False
    # A file of signatures of the plan.
    signatures: bytes | None = None


async def resume_run(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    *,
    workflow: Replacement | None = None,
    budgets: dict[str, Any] | None = None,
    workspace: Path | None = None,
    env_files: Sequence[EnvFile] = (),
) -> ReadyRun:
    """What has been done is not done again. A paused run that another process drives continues there.

    `budgets`: in the form returned by `parse_budget`; only for an open run.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    await _may_resume(parts, run, replaces=workflow is not None, raises=budgets is not None)
    if run.pool is not None:
        return await _resume_in_pool(parts, run, workflow, budgets, workspace)
    if run.provider != parts.engine().provider:
        return await _resume_elsewhere(parts, run, workflow, budgets, workspace)
    await prepare_resumed(parts, run, env_files)
    if workflow is not None and is_elsewhere(run):
        raise InvalidInput(
            f"run {run_id!r} is driven by another engine and continues with its own workflow; "
            f"`podium rerun {run_id}` starts a new run"
        )
    plan = workflow.plan if workflow is not None else None
    await _require_needs(parts, run, plan, workspace)
    if workflow is not None:
        await _replace_workflow(parts, run, workflow)
    if budgets is not None:
        await _raise_budgets(parts, run, budgets)
    if workspace is not None:
        move_workspace(parts.directory(run_id), workspace)
    await check_signed_run(parts, run)
    # The decision is based on the run's current state, whatever happens to it before this process gets it.
    end = await last_end(parts.store, run)
    if end is not None and run.needs_approval:
        await _require_approval(parts, run)
    reopen = end.run_seq if end is not None else None
    if await is_paused(parts.store, run):
        return ReadyRun(run.identity.run_id, reopen, followed_from=run.head, is_paused=True)
    return ReadyRun(run.identity.run_id, reopen, was_open=end is None)


async def _require_approval(parts: Parts, run: Run) -> None:
    """For a run that has ended: one that was rejected, or cancelled before its approval, never starts."""
    from podium.runtime.plan_approval import approval_record

    if await approval_record(parts.store, run) is None:
        run_id = run.identity.run_id
        raise RunNotApproved(
            f"run {run_id!r} ended ({run.status.value.lower()}) before its plan was approved, and never starts; "
            f"`podium rerun {run_id}` starts a new run, which needs its own approval"
        )


async def _resume_elsewhere(
    parts: Parts,
    run: Run,
    workflow: Replacement | None,
    budgets: dict[str, Any] | None,
    workspace: Path | None,
) -> ReadyRun:
    """A paused run, or one that is out of budget, gets the signal to continue and is followed.

    Its engine does the rest: its files and its environment are where its workers are. Raises `OtherEngine`.
    """
    from podium.operations.signals import check_may_drive

    await check_may_drive(parts.store, parts.clock, run, parts.access())
    if workflow is not None or workspace is not None or not await is_paused(parts.store, run):
        raise OtherEngine(run)
    if budgets is not None:
        await _raise_budgets(parts, run, budgets)
    return ReadyRun(run.identity.run_id, followed_from=run.head, is_paused=True)


async def _resume_in_pool(
    parts: Parts,
    run: Run,
    workflow: Replacement | None,
    budgets: dict[str, Any] | None,
    workspace: Path | None,
) -> ReadyRun:
    """Its workers continue it: a run that has ended is reopened for them, a paused one gets the signal to
    continue.
    """
    from podium.operations.signals import check_may_drive

    await check_may_drive(parts.store, parts.clock, run, parts.access())
    if workflow is not None or workspace is not None:
        raise OtherEngine(run)
    if budgets is not None:
        await _raise_budgets(parts, run, budgets)
    await check_signed_run(parts, run)
    end = await last_end(parts.store, run)
    if end is not None and run.needs_approval:
        await _require_approval(parts, run)
    run_id = run.identity.run_id
    if end is None and await is_paused(parts.store, run):
        return ReadyRun(run_id, followed_from=run.head, is_paused=True)
    return ReadyRun(run_id, end.run_seq if end is not None else None, was_open=end is None)


async def require_env_files(
    parts: Parts, run: Run, given: Sequence[EnvFile], command: str
) -> Sequence[EnvFile]:
    """All files of the run; warns about changed ones. Raises `EnvFileRequired` if it needs others than those
    given.
    """
    found = await files_of_run(parts.store, parts.runs, run, given, command)
    for warning in found.warnings:
        parts.notify(f"warning: {visible(warning)}")
    return found.files


async def _may_resume(parts: Parts, run: Run, *, replaces: bool, raises: bool) -> None:
    """Check that all of it is allowed before any of it is done. Raises what `Parts.require` raises."""
    if parts.is_owner:
        return
    tenant_id, run_id = run.identity.tenant_id, run.identity.run_id
    if raises:
        from podium.access.operations import SIGNALS

        asked, reason = SIGNALS["UPDATE_PARAMS"], _BUDGET_REASON
        access = parts.access()
        await access.require(
            parts.store, parts.clock, asked, tenant_id, run_id=run_id, reason=reason, records=False
        )
    if replaces:
        await parts.require("run.replace-workflow", tenant_id, run_id)
    await parts.require("run.resume", tenant_id, run_id)


async def prepare_resumed(parts: Parts, run: Run, env_files: Sequence[EnvFile]) -> Sequence[EnvFile]:
    """All environment files of the run. Raises `NotAllowed` for a step of the run itself, and
    `EnvFileRequired`.
    """
    from podium.operations.signals import check_may_drive

    run_id = run.identity.run_id
    await check_may_drive(parts.store, parts.clock, run, parts.access())
    await parts.restored(run)
    return await require_env_files(parts, run, env_files, f"podium resume {run_id}")


async def _require_needs(parts: Parts, run: Run, plan: Plan | None, workspace: Path | None) -> None:
    """Checked before anything about the run changes. A live driver has what it needs; a completed run needs
    nothing.
    """
    if run.status is RunStatus.COMPLETED or (await driver_of(parts.store, run)).is_alive:
        return
    plan = plan or await parts.plan_of(run)
    workspace = workspace or workspace_of(parts.directory(run.identity.run_id), run)
    check_workspace(run, workspace)
    await parts.require_needs(plan, workspace)


async def _replace_workflow(parts: Parts, run: Run, workflow: Replacement) -> None:
    from podium.operations.signals import signal_run
    from podium.operations.structure import replace_workflow

    run_id, tenant_id = run.identity.run_id, run.identity.tenant_id
    changed = await replace_workflow(
        parts,
        tenant_id,
        run_id,
        workflow.plan,
        workflow.source,
        force=workflow.force,
        signatures=workflow.signatures,
    )
    if changed:
        reason, allowed = "podium resume --workflow", replace(parts, access=partial(_with_replaced, parts))
        await signal_run(allowed, tenant_id, run_id, "UPDATE_PARAMS", params=changed, reason=reason)


def _with_replaced(parts: Parts) -> "Access":
    """A user who may replace the workflow may also do what follows from that."""
    from podium.access.deciding import OwnerAuthoriser

    return replace(parts.access(), authoriser=OwnerAuthoriser())


async def _raise_budgets(parts: Parts, run: Run, budgets: dict[str, Any]) -> None:
    from podium.operations.signals import check_signal, signal_run

    run_id, tenant_id = run.identity.run_id, run.identity.tenant_id
    if run.status in TERMINAL:
        raise InvalidInput(
            f"--budget is for an open run, and {run_id!r} has ended. Resume it without; should its budget be "
            f"used up, it stops again, and can be given more then."
        )
    raised = {"params": budgets, "reason": _BUDGET_REASON}
    plan = await parts.plan_of(run)
    values = parts.values(run_id)
    await check_signal(parts.store, run, plan, "UPDATE_PARAMS", raised, parts.access(), values)
    await signal_run(parts, tenant_id, run_id, "UPDATE_PARAMS", params=budgets, reason=raised["reason"])
