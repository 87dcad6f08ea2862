"""A new run of what was run before: from one of its steps on, or of what has changed. The rest is taken over."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import msgspec

from podium.log.ids import RunId
from podium.log.runs import Run
from podium.operations.env_files import EnvFile, kept_facts
from podium.operations.inputs import InvalidInput, check_inputs
from podium.operations.parts import Parts
from podium.operations.resume import require_env_files
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.ports.store import Store
from podium.runtime.plan_file import load_plan, load_source
from podium.runtime.reading import queued_of
from podium.runtime.reusing import results_before
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import MakeFolder, values_of
from podium.runtime.workspaces import workspace_of


async def rerun_run(
    parts: Parts,
    run_id: str,
    step: str | None = None,
    new_id: str | None = None,
    env_files: Sequence[EnvFile] = (),
) -> RunRequest:
    """What `start_run` takes for a new run of an earlier one, from a step on or from its start."""
    run = await parts.store.get_run(RunId(run_id))
    command = f"podium rerun {run_id}" + (f" --from {quote(step)}" if step is not None else "")
    await require_env_files(parts, run, env_files, command)
    request = await rerun_request(
        parts.store, parts.runs, RunId(run_id), step, new_id, payloads=parts.payloads
    )
    parts.require_needs(request.plan, request.workspace)
    return msgspec.structs.replace(request, env_files=kept_facts(env_files))


async def rerun_request(
    store: Store,
    runs: Path,
    original: RunId,
    step: str | None,
    run_id: str | None = None,
    *,
    payloads: MakeFolder,
) -> RunRequest:
    """The wish for that run: the same plan, inputs and workspace. Raises `InvalidInput` if the step was not reached."""
    run = await store.get_run(original)
    directory = RunDirectory(runs, original)
    plan = await load_plan(store, directory, run)
    if step is not None and await results_before(store, original, step) is None:
        raise InvalidInput(
            f"run {original!r} never came to a step {step!r}; `podium events {original}` shows those it came to"
        )
    request = await _request(store, directory, run, plan, payloads)
    return msgspec.structs.replace(request, run_id=run_id, rerun_from=step)


async def changed_request(
    store: Store,
    runs: Path,
    original: RunId,
    run_id: str | None = None,
    *,
    plan: Plan | None = None,
    source: bytes | None = None,
    payloads: MakeFolder,
) -> RunRequest:
    """The wish for a run of what has changed since: by the plan of the earlier run, or by another one."""
    run = await store.get_run(original)
    directory = RunDirectory(runs, original)
    plan_now = plan if plan is not None else await load_plan(store, directory, run)
    request = await _request(store, directory, run, plan_now, payloads)
    inputs = check_inputs(request.inputs, request.plan.workflow) if plan is not None else request.inputs
    return msgspec.structs.replace(
        request,
        inputs=inputs,
        run_id=run_id,
        source=source if source is not None else request.source,
        only_changed=True,
    )


async def _request(
    store: Store, directory: RunDirectory, run: Run, plan: Plan, payloads: MakeFolder
) -> RunRequest:
    original = run.identity.run_id
    asked = await queued_of(store, original, values_of(store, original, directory, payloads))
    return RunRequest(
        plan,
        asked.inputs,
        None,
        await load_source(store, directory, run),
        workspace_of(directory, run),
        tenant_id=run.identity.tenant_id,
        project_id=run.identity.project_id,
        environment_id=run.identity.environment_id,
        original_run_id=original,
    )


def carry_files_over(runs: Path, original: RunId, run_id: RunId) -> None:
    """The files that steps of the earlier run have kept."""
    before, now = RunDirectory(runs, original), RunDirectory(runs, run_id)
    if before.artifacts.exists():
        shutil.copytree(before.artifacts, now.artifacts, symlinks=True, dirs_exist_ok=True)
