"""Remove runs that ended long ago. Never by itself: somebody asks for it.

A run's directory, with its logs and artifacts, goes with it. It is marked first, then the run is removed from the store
and then the directory: what a crash leaves between the two is swept away the next time.
"""

import shutil
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from podium.errors import RunNotFound, RunNotPrunable
from podium.log.ids import RunId
from podium.log.runs import Run, RunQuery
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.ports.clock import Clock
from podium.ports.store import Store


class Pruned(NamedTuple):
    run: Run
    # Why it was left in place; None if it was removed, or would be.
    kept_because: str | None


async def prune_by_policy(
    store: Store,
    clock: Clock,
    tenant_id: str,
    policy: Mapping[RunStatus, timedelta],
    *,
    dry_run: bool = False,
    runs: Path | None = None,
) -> AsyncIterator[Pruned]:
    """Remove the ended runs of a tenant that are older than the policy allows for their status."""
    if runs is not None and not dry_run:
        await _sweep(store, runs)
    for age in sorted(set(policy.values())):
        statuses = frozenset(status for status, kept in policy.items() if kept == age)
        async for one in prune_runs(
            store,
            clock,
            tenant_id,
            older_than=age,
            statuses=statuses,
            dry_run=dry_run,
            runs=runs,
            sweep=False,
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
    sweep: bool = True,
) -> AsyncIterator[Pruned]:
    """Remove the ended runs of a tenant that were created before then, one transaction each."""
    if runs is not None and sweep and not dry_run:
        await _sweep(store, runs)
    before = timestamp(clock.now() - older_than)
    cursor = None
    while True:
        query = RunQuery(created_before=before, statuses=statuses & TERMINAL, limit=200, cursor=cursor)
        page = await store.runs.page(tenant_id, query)
        for run in page.runs:
            kept_because = None
            if not dry_run:
                kept_because = await _prune(store, run.identity.run_id, runs)
            yield Pruned(run, kept_because)
        cursor = page.cursor
        if cursor is None:
            return


async def _prune(store: Store, run_id: RunId, runs: Path | None) -> str | None:
    directory = runs / run_id if runs is not None else None
    mark = directory / _MARK if directory is not None and directory.is_dir() else None
    if mark is not None:
        mark.touch()
    try:
        await store.prune(run_id)
    except RunNotPrunable as refused:
        if mark is not None:
            mark.unlink(missing_ok=True)
        return str(refused)
    if mark is not None and directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
    return None


async def _sweep(store: Store, runs: Path) -> None:
    """Directories that were marked and whose run is gone."""
    for mark in runs.glob(f"*/{_MARK}"):
        try:
            await store.get_run(RunId(mark.parent.name))
        except RunNotFound:
            shutil.rmtree(mark.parent, ignore_errors=True)
        else:
            mark.unlink(missing_ok=True)


_MARK: Final = ".pruned"
