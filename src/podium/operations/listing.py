"""Lists of runs in pages, with what keeps each of them from continuing."""

from typing import Final, NamedTuple

from msgspec.structs import replace

from podium.log.runs import Run, RunQuery
from podium.operations.parts import Parts
from podium.operations.run_filters import RunFilter, parse_filter
from podium.operations.summaries import Summaries, summaries_of
from podium.operations.waiting import Obstacles, needing, obstacles_of

# A store scans a bounded number of runs for a page; this is the maximum number of scans for a page that is
# not full.
_MAX_PAGES: Final = 20


class RunList(NamedTuple):
    runs: tuple[Obstacles, ...]
    # None on the last page.
    cursor: str | None


class RunTable(NamedTuple):
    """A page of runs with their latest projections."""

    runs: tuple[Run, ...]
    summaries: Summaries
    cursor: str | None
    # Empty unless they were requested.
    obstacles: tuple[Obstacles, ...] = ()


async def table_of_runs(
    parts: Parts, tenant_id: str, text: str, base: RunQuery, *, with_obstacles: bool = False
) -> RunTable:
    """The next runs that match `base` and the filter, found as in `list_runs`. Raises `InvalidFilter`."""
    wanted = parse_filter(text, parts.clock.now(), base)
    if with_obstacles or wanted.needs is not None:
        found, cursor = await list_runs(parts, tenant_id, wanted)
        runs = [one.run for one in found]
        return RunTable(tuple(runs), await summaries_of(parts, runs), cursor, found)
    runs, cursor = await _page(parts, tenant_id, wanted)
    return RunTable(tuple(runs), await summaries_of(parts, runs), cursor)


async def list_runs(parts: Parts, tenant_id: str, wanted: RunFilter) -> RunList:
    """The next runs that match, newest first. May be fewer than requested although there is a cursor."""
    if wanted.needs is not None:
        found, cursor = await needing(parts, tenant_id, wanted.query, wanted.needs)
        return RunList(tuple(found), cursor)
    runs, cursor = await _page(parts, tenant_id, wanted)
    return RunList(tuple([await obstacles_of(parts, run) for run in runs]), cursor)


async def _page(parts: Parts, tenant_id: str, wanted: RunFilter) -> tuple[list[Run], str | None]:
    query, runs = wanted.query, list[Run]()
    for _ in range(_MAX_PAGES):
        page = await parts.store.runs.page(tenant_id, query)
        runs += page.runs
        query = replace(query, cursor=page.cursor, limit=wanted.query.limit - len(runs))
        if page.cursor is None or not query.limit:
            return runs, page.cursor
    return runs, query.cursor
