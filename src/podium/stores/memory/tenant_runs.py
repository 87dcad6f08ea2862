"""Runs as a tenant sees them."""

from collections.abc import Mapping

from podium.errors import RunNotFound
from podium.log.runs import Run, RunPage, RunQuery, matches
from podium.stores.listing import Place, place_of
from podium.stores.memory.state import KeptRun


class MemoryTenantRuns:
    def __init__(self, runs: Mapping[str, KeptRun]) -> None:
        self._runs = runs

    async def find(self, tenant_id: str, run_id: str) -> Run:
        kept = self._runs.get(run_id)
        if kept is None or kept.row.identity.tenant_id != tenant_id:
            raise RunNotFound(run_id)
        return kept.row

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage:
        last = place_of(query)
        found = [
            kept
            for kept in sorted(self._runs.values(), key=_place, reverse=True)
            if kept.row.identity.tenant_id == tenant_id
            and (last is None or _place(kept) < last)
            and matches(kept.row, query)
        ]
        page = found[: query.limit]
        more = len(found) > len(page)
        return RunPage(
            runs=tuple(kept.row for kept in page), cursor=_place(page[-1]).cursor() if more else None
        )


def _place(kept: KeptRun) -> Place:
    return Place(kept.row.created_at, kept.number)
