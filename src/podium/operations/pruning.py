"""Removes runs that ended long ago; only on request, never automatically.

A run's directory, with its logs and artifacts, is removed with it, and so is its part of the bucket, if
configured. The directory is marked first, then the run is removed from the store, then the rest: what is left
behind because of a crash, or a bucket that does not answer, is removed the next time. The mark contains the
id of the run's first event, which names its part of the bucket. Another engine's data of the run is removed
before all that: if its server does not answer, the run is kept.
"""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from podium.errors import PodiumError, RunNotFound, RunNotPrunable
from podium.files import read_regular
from podium.log.ids import RunId, check_uuid4
from podium.log.runs import Run, RunQuery
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.operations.parts import Parts
from podium.permissions import folder_mode
from podium.ports.artifacts import ArtifactBucket
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.run_artifacts import part_name
from podium.runtime.rundir import write_atomically

RemoveExecutions: TypeAlias = Callable[[Run], Awaitable[None]]


class Pruned(NamedTuple):
    run: Run
    # Why it was kept; None if it was removed, or would be.
    kept_because: str | None = None
    # What of it could not be removed yet.
    left_behind: str | None = None


async def prune_by_policy(
    parts: Parts,
    tenant_id: str,
    policy: Mapping[RunStatus, timedelta],
    *,
    dry_run: bool = False,
    leave_executions: bool = False,
) -> AsyncIterator[Pruned]:
    """Remove the ended runs of a tenant that are older than the policy allows for their status.

    `leave_executions`: other engines' data of them is not removed, and their servers are not contacted.
    """
    await parts.require("run.prune", tenant_id, records=not dry_run)
    if not dry_run:
        await _sweep(parts.store, parts.runs, parts.bucket)
    for age in sorted(set(policy.values())):
        statuses = frozenset(status for status, kept in policy.items() if kept == age)
        async for one in prune_runs(
            parts.store,
            parts.clock,
            tenant_id,
            older_than=age,
            statuses=statuses,
            dry_run=dry_run,
            runs=parts.runs,
            bucket=parts.bucket,
            sweep=False,
            remove_executions=None if leave_executions else parts.remove_executions,
        ):
            yield one


async def prune_runs(
    store: Store,
    clock: Clock,
    tenant_id: str,
    *,
    older_than: timedelta,
    statuses: frozenset[RunStatus] = TERMINAL,
    dry_run: bool = False,
    runs: Path | None = None,
    bucket: ArtifactBucket | None = None,
    sweep: bool = True,
    remove_executions: RemoveExecutions | None = None,
    among: RunQuery | None = None,
) -> AsyncIterator[Pruned]:
    """Remove the ended runs of a tenant that were created before then, one transaction each.

    `among`: only runs of these plans, projects and environments.
    """
    if runs is not None and sweep and not dry_run:
        await _sweep(store, runs, bucket)
    before = timestamp(clock.now() - older_than)
    cursor = None
    while True:
        query = replace(
            among or RunQuery(),
            created_before=before,
            statuses=statuses & TERMINAL,
            limit=200,
            cursor=cursor,
        )
        page = await store.runs.page(tenant_id, query)
        for run in page.runs:
            yield Pruned(run) if dry_run else await _prune(store, run, runs, bucket, remove_executions)
        cursor = page.cursor
        if cursor is None:
            return


async def _prune(
    store: Store,
    run: Run,
    runs: Path | None,
    bucket: ArtifactBucket | None,
    remove_executions: RemoveExecutions | None,
) -> Pruned:
    run_id = run.identity.run_id
    if remove_executions is not None:
        try:
            await remove_executions(run)
        except PodiumError as error:
            return Pruned(run, f"kept, because its executions cannot be removed: {error.code} {error}")
    directory = runs / run_id if runs is not None else None
    first = await _first_event(store, run_id) if bucket is not None else None
    mark = _mark(directory, first) if directory is not None and (first or directory.is_dir()) else None
    try:
        await store.prune(run_id)
    except RunNotPrunable as refused:
        if mark is not None:
            mark.unlink(missing_ok=True)
        return Pruned(run, str(refused))
    try:
        await _remove_artifacts(bucket, run_id, first)
    except PodiumError as error:
        return Pruned(run, left_behind=f"its artifacts are not removed; the next prune tries again: {error}")
    if mark is not None and directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
    return Pruned(run)


def _mark(directory: Path, first_event_id: str | None) -> Path:
    # A run that another machine has driven may not have a directory here.
    directory.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
    mark = directory / _MARK
    write_atomically(mark, (first_event_id or "").encode(), durable=False)
    return mark


async def _sweep(store: Store, runs: Path, bucket: ArtifactBucket | None) -> None:
    """Remove directories that were marked and whose run is gone; its id may belong to a new run by now."""
    for mark in runs.glob(f"*/{_MARK}"):
        run_id = RunId(mark.parent.name)
        present, marked = await _first_event(store, run_id), _marked_event(mark)
        try:
            if marked != present:
                await _remove_artifacts(bucket, run_id, marked)
        except PodiumError:
            continue
        if present is None:
            shutil.rmtree(mark.parent, ignore_errors=True)
        else:
            mark.unlink(missing_ok=True)


async def _remove_artifacts(bucket: ArtifactBucket | None, run_id: RunId, first_event_id: str | None) -> None:
    if bucket is not None and first_event_id is not None:
        await bucket.remove(part_name(run_id, first_event_id))


async def _first_event(store: Store, run_id: RunId) -> str | None:
    try:
        records = await store.read(run_id, limit=1)
    except RunNotFound:
        return None
    return records[0].event_id if records else None


def _marked_event(mark: Path) -> str | None:
    """Steps can write marks, too: anything but the id of an event is ignored."""
    try:
        marked = read_regular(mark, max_bytes=_MAX_MARK, what="the id of an event").decode("ascii", "replace")
        check_uuid4("event", marked)
    except (PodiumError, OSError):
        return None
    return marked


_MARK: Final = ".pruned"
_MAX_MARK: Final = 100


async def prune_run(parts: Parts, tenant_id: str, run_id: str) -> Pruned:
    """Remove one run that has ended. Raises `RunNotFound`, `RunNotPrunable`, and what `Parts.require` raises."""
    run = await parts.store.runs.find(tenant_id, run_id)
    await parts.require("run.prune", tenant_id, run_id)
    done = await _prune(parts.store, run, parts.runs, parts.bucket, parts.remove_executions)
    if done.kept_because is not None:
        raise RunNotPrunable(done.kept_because)
    return done
