"""Remove runs that ended long ago. Never by itself: somebody asks for it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

from podium.errors import RunNotPrunable
from podium.model.runs import Run, RunQuery
from podium.model.times import timestamp
from podium.model.transitions import TERMINAL, RunStatus
from podium.ports.clock import Clock
from podium.ports.store import Store


class Pruned(NamedTuple):
    run: Run
    # Why it was left in place; None if it was removed, or would be.
    kept_because: str | None


async def prune_runs(
    store: Store,
    clock: Clock,
    tenant_id: str,
    *,
    older_than: timedelta,
    statuses: frozenset[RunStatus] = TERMINAL,
    dry_run: bool = False,
) -> AsyncIterator[Pruned]:
    """Remove the ended runs of a tenant that were created before then, one transaction each."""
    before = timestamp(clock.now() - older_than)
    cursor = None
    while True:
        query = RunQuery(created_before=before, statuses=statuses & TERMINAL, limit=200, cursor=cursor)
        page = await store.runs.page(tenant_id, query)
        for run in page.runs:
            kept_because = None
            if not dry_run:
                try:
                    await store.prune(run.identity.run_id)
                except RunNotPrunable as refused:
                    kept_because = str(refused)
            yield Pruned(run, kept_because)
        cursor = page.cursor
        if cursor is None:
            return
