"""A new run of an earlier one: from one of its steps on, or of what has changed. The rest is reused."""

import shutil
from collections.abc import Sequence
from hashlib import sha256
from shlex import quote

import msgspec

from podium.log.ids import RunId
from podium.log.runs import Run
from podium.operations.env_files import EnvFile, kept_facts
from podium.operations.inputs import SOURCES, InvalidInput, check_inputs
from podium.operations.parts import Parts
from podium.operations.resume import Replacement, prepare_resumed, require_env_files
from podium.operations.signed_runs import is_required, kept_signatures
from podium.operations.start import may_start
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.runtime.plan_file import load_source, plan_content
from podium.runtime.reading import queued_of
from podium.runtime.reusing import results_before
from podium.runtime.step_files import restore_step_files
from podium.runtime.workspaces import workspace_of


async def rerun_request(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    step: str | None = None,
    new_id: str | None = None,
    env_files: Sequence[EnvFile] = (),
    signatures: bytes | None = None,
) -> RunRequest:
    """A run of the same plan, inputs and workspace, from a step on. Raises `InvalidInput` if the step was not
    reached.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    await may_start(parts, tenant_id, again=True)
    command = f"podium rerun {run_id}" + (f" --from {quote(step)}" if step is not None else "")
    env_files = await require_env_files(parts, run, env_files, command)
    if step is not None and await results_before(parts.store, RunId(run_id), step) is None:
        raise InvalidInput(
            f"run {run_id!r} never reached a step {step!r}; `podium events {run_id}` shows those it reached"
        )
    request = await _request(parts, run, await parts.plan_of(run), env_files, signatures)
    # From its first step on it takes nothing over, so the hosts of its pool can carry it out.
    pool = run.pool if step is None else None
    return msgspec.structs.replace(request, run_id=new_id, rerun_from=step, pool=pool)


async def changed_request(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    *,
    workflow: Replacement | None = None,
    new_id: str | None = None,
    env_files: Sequence[EnvFile] = (),
    signatures: bytes | None = None,
) -> RunRequest:
    """A run of what has changed since: it reuses every step that would be executed in the same way."""
    run = await parts.store.runs.find(tenant_id, run_id)
    await may_start(parts, tenant_id, again=True)
    env_files = await prepare_resumed(parts, run, env_files)
    plan = workflow.plan if workflow is not None else await parts.plan_of(run)
    request = msgspec.structs.replace(
        await _request(parts, run, plan, env_files, signatures), run_id=new_id, only_changed=True
    )
    if workflow is None:
        return request
    inputs = check_inputs(request.inputs, plan.workflow, sources=SOURCES if parts.is_owner else ())
    return msgspec.structs.replace(
        request,
        inputs=inputs,
        source=workflow.source,
        plan_ref=None,
        plan_content=None,
        signatures=workflow.signatures,
    )


async def _request(
    parts: Parts, run: Run, plan: Plan, env_files: Sequence[EnvFile], signatures: bytes | None
) -> RunRequest:
    identity, directory = run.identity, parts.directory(run.identity.run_id)
    asked = await queued_of(parts.store, identity.run_id, parts.values(identity.run_id))
    workspace = workspace_of(directory, run)
    await parts.require_needs(plan, workspace)
    published = content = await _published(parts, run)
    if is_required(parts.signing(), identity.tenant_id):
        # The signatures of the earlier run; they are checked again, for the very bytes that were signed.
        signatures = signatures or await kept_signatures(parts, run)
        content = published or await plan_content(parts.store, directory, run)
    return RunRequest(
        plan,
        asked.inputs,
        None,
        await load_source(parts.store, directory, run),
        workspace,
        tenant_id=identity.tenant_id,
        project_id=identity.project_id,
        environment_id=identity.environment_id,
        original_run_id=identity.run_id,
        env_files=kept_facts(env_files),
        plan_ref=run.plan_ref if published is not None else None,
        plan_content=content,
        signatures=signatures,
        # The need for an approval is inherited, the approval itself never is.
        needs_approval=run.needs_approval,
        labels=run.labels,
    )


async def _published(parts: Parts, run: Run) -> bytes | None:
    """The plan of a run as it was published, if it still has that one."""
    if run.plan_ref is None:
        return None
    content = await plan_content(parts.store, parts.directory(run.identity.run_id), run)
    return content if sha256(content).hexdigest() == run.plan_sha256 else None


async def carry_files_over(parts: Parts, original: RunId, run_id: RunId) -> None:
    """Copy the files that steps of the earlier run have stored; from the bucket, if this machine does not
    have them.
    """
    before, now = parts.directory(original), parts.directory(run_id)
    if before.artifacts.exists():
        shutil.copytree(before.artifacts, now.artifacts, symlinks=True, dirs_exist_ok=True)
    bucket = parts.bucket_of(original)
    if bucket is not None and (before.is_lost or before.lacks_files.exists()):
        await restore_step_files(parts.store, original, now.artifacts, bucket)
