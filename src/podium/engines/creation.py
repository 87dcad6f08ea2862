"""Creates a run: its needs are checked, the store decides whether the id is free, then its directory is
written.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from podium.engines.parts import LocalParts
from podium.engines.run_ids import check_run_id, generated_ids
from podium.errors import PodiumError, RunNotFound, RunRequestConflict
from podium.log.events import EventType, EventWrite, RunIdentity
from podium.log.ids import RunId
from podium.log.payloads import RunQueued
from podium.log.runs import NewRun, Run
from podium.plan.canonical import canonical_sha256
from podium.plan.loading import plan_bytes, steps_of
from podium.plan.plan import Agent
from podium.ports.engine import Notice, RunRequest
from podium.ports.store import CreatedRun
from podium.runtime.plan_file import PLAN, SIGNATURES, WORKFLOW
from podium.runtime.run_file import write_run_file
from podium.runtime.rundir import write_atomically, write_private
from podium.runtime.spilling import NewValues, is_value, spill
from podium.runtime.writing import new_event


class RunExists(PodiumError):
    code = "RUN_EXISTS"


class NotForPool(PodiumError):
    """A request that the workers of a pool cannot execute."""

    code = "NOT_FOR_POOL"


async def create_run(
    parts: LocalParts, request: RunRequest, notify: Callable[[Notice], None] | None = None
) -> RunId:
    if request.run_id is not None:
        return await _create(parts, request, RunId(request.run_id), notify)
    for run_id in generated_ids(request.plan.metadata.plan_id):
        with contextlib.suppress(RunExists):
            return await _create(parts, request, run_id, notify)
    raise AssertionError("ids of 128 random bits are taken")


async def _create(
    parts: LocalParts, request: RunRequest, run_id: RunId, notify: Callable[[Notice], None] | None
) -> RunId:
    await _check_id(parts, run_id)
    await _check_needs(parts, request, run_id)
    encoded = request.plan_content or plan_bytes(request.plan)
    new = new_run(parts, request, run_id, sha256(encoded).hexdigest())
    values = NewValues()
    payload = await spill(asked_for(request), values)
    queued = new_event(new.identity, EventType.RUN_QUEUED, parts.now(), payload)
    contents = {PLAN: encoded, **values.contents}
    if request.source:
        contents[WORKFLOW] = request.source
    if request.signed_by and request.signatures is not None:
        contents[SIGNATURES] = request.signatures
    create = partial(parts.store.create_run, new, [queued], contents)
    if request.audit:
        create = partial(create, audit=request.audit)
    try:
        created = await parts.patiently(run_id, create, notify, is_created=False)
    except RunRequestConflict as conflict:
        raise exists(run_id) from conflict
    await _check_ours(parts, created, queued)
    await _write_directory(parts, created.run, contents)
    if request.env_files is not None:
        write_private(parts.directory(run_id).env_key, request.env_files.key)
    return run_id


async def _check_id(parts: LocalParts, run_id: RunId) -> None:
    """An early check, before anything is created; creating the run in the store is decisive."""
    check_run_id(run_id)
    with contextlib.suppress(RunNotFound):
        await parts.store.get_run(run_id)
        raise exists(run_id)
    directory = parts.directory(run_id)
    # An empty directory is not a run: the process that created it may have been killed before the run
    # existed.
    if directory.state.exists() or (directory.logs / "events.jsonl").exists():
        raise RunExists(
            f"{directory.path} has a run {run_id!r} that this store does not have; name its store with --store, "
            "rebuild a lost one with `podium store rebuild`, or use another id"
        )


async def _check_needs(parts: LocalParts, request: RunRequest, run_id: RunId) -> None:
    plan = request.plan
    parts = parts.for_inputs(plan, request.inputs)
    await parts.fetch_secrets(plan)
    await parts.reach_bucket()
    parts.check(plan, request.workspace).require()
    if any(isinstance(s.body, Agent) and s.body.workspace == "worktree" for s in steps_of(plan.workflow)):
        from podium.runtime.tasks import worktrees

        await worktrees.check(parts.host(plan, run_id, request.workspace), run_id)


def new_run(parts: LocalParts, request: RunRequest, run_id: RunId, plan_sha256: str) -> NewRun:
    plan = request.plan
    identity = RunIdentity(
        run_id=run_id,
        tenant_id=request.tenant_id,
        project_id=request.project_id,
        environment_id=request.environment_id,
        plan_id=plan.metadata.plan_id,
        plan_version=plan.metadata.plan_version,
    )
    metadata = {
        "workspace": str(request.workspace.absolute()),
        "name": plan.metadata.name,
        **request.engine_facts,
    }
    return NewRun(
        identity=identity,
        plan_sha256=plan_sha256,
        inputs_sha256=canonical_sha256(request.inputs),
        priority=plan.priority if request.priority is None else request.priority,
        backpressure=request.backpressure,
        start_at=request.start_at,
        is_exclusive=request.pool is not None and on_conflict(request) == "reject",
        concurrency_key=request.concurrency_key or _concurrency_key(parts, request),
        concurrency_limit=_concurrency_limit(request),
        run_request_id=request.run_request_id,
        pool=request.pool,
        engine=request.engine,
        metadata=msgspec.json.encode(metadata),
        plan_ref=request.plan_ref,
        needs_approval=_needs_approval(request),
        labels=request.labels,
    )


def _needs_approval(request: RunRequest) -> bool:
    """Decided once, here: later changes of rules do not affect an existing run."""
    is_asked = request.needs_approval or request.plan.approval == "required"
    return is_asked and request.plan_approved_by is None


def _concurrency_key(parts: LocalParts, request: RunRequest) -> str | None:
    if request.plan.concurrency is None:
        return None
    from podium.runtime.slots import concurrency_key

    return concurrency_key(request.plan, request.inputs, parts.environment_of(request.plan))


def _concurrency_limit(request: RunRequest) -> int | None:
    """Workers of pools read it from the run; a process that drives its own run, from the plan."""
    if request.pool is None or request.concurrency_limit is not None:
        return request.concurrency_limit
    return request.plan.concurrency.limit if request.plan.concurrency is not None else None


def on_conflict(request: RunRequest) -> str:
    """What happens if other runs have its concurrency key: queue, reject or cancel."""
    concurrency = request.plan.concurrency
    return concurrency.on_conflict if concurrency is not None and request.concurrency_key is None else "queue"


def asked_for(request: RunRequest) -> dict[str, Any]:
    asked = RunQueued(
        needs_approval=_needs_approval(request),
        plan_approved_by=request.plan_approved_by,
        original_run_id=request.original_run_id,
        rerun_from=request.rerun_from,
        only_changed=request.only_changed,
        retried_by=request.retried_by,
        env_files=request.env_files.facts if request.env_files is not None else None,
        signed_by=request.signed_by,
    )
    return {**msgspec.to_builtins(asked), "inputs": request.inputs}


async def _check_ours(parts: LocalParts, created: CreatedRun, queued: EventWrite) -> None:
    """A run that already existed may be ours: the answer to the first attempt may have been lost."""
    run_id = created.run.identity.run_id
    if created.duplicate and (await parts.store.read(run_id, limit=1))[0].event_id != queued.event_id:
        raise exists(run_id)


async def _write_directory(parts: LocalParts, run: Run, contents: Mapping[str, bytes]) -> None:
    """Only now, because the process that created the run owns its directory. If this is interrupted, resume
    repeats it.
    """
    run_id = run.identity.run_id
    directory = parts.directory(run_id)
    directory.make()
    write_run_file(directory, run)
    for name, content in contents.items():
        if is_value(name):
            await parts.values(run_id)().copy(content)
        elif name != PLAN:
            write_atomically(directory.path / name, content, durable=False)
    write_atomically(directory.plan, contents[PLAN], durable=False)


def exists(run_id: RunId) -> RunExists:
    return RunExists(
        f"run {run_id!r} exists already; continue it with `podium resume {run_id}`, or use another id"
    )
