"""Pages of the runs of a tenant."""

from typing import Final

from podium.log.runs import RunPage, RunQuery
from podium.stores.listing import (
    MAX_SCANNED,
    ORDER,
    Dialect,
    Found,
    Listing,
    Place,
    Scan,
    could_match,
    further,
    place_of,
)
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import RUN, run_of

DIALECT: Final = Dialect(
    value="%({name})s",
    contains="position({text} IN {within}) > 0",
    # OFFSET keeps the planner from making a join of it, whose cost would be the product of two filters.
    exists="EXISTS ({rows} OFFSET 0)",
    # Without an order of their own all runs of these filters would be sorted.
    merged=f"({{runs}} {ORDER} LIMIT {MAX_SCANNED})",
    sorts_again=True,
)

# Pages are read in the order of an index whatever the statistics say. After a burst of runs they still describe the
# table before it: a plan that was chosen for a handful of runs sorts them all, or joins them without an index.
IN_INDEX_ORDER: Final = (
    "BEGIN READ ONLY; SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; "
    "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"
)


async def page(connections: Connections, tenant_id: str, query: RunQuery) -> RunPage:
    place_of(query)
    if not could_match(tenant_id, query):
        return RunPage(runs=(), cursor=None)
    listing = Listing(DIALECT, RUN, tenant_id, query)
    async with connections.lend() as connection:
        await connection.execute(IN_INDEX_ORDER)
        found = await _page(connection, listing, query.limit)
        await connection.execute("COMMIT")
    return found


async def _page(connection: Connection, listing: Listing, limit: int) -> RunPage:
    longest: Found | None = None
    for scan in listing.scans():
        found = await _found(connection, listing, scan)
        if (full := found.page(limit)) is not None:
            return full
        longest = found if longest is None else further(longest, found)
    assert longest is not None
    return longest.short_page()


async def _found(connection: Connection, listing: Listing, scan: Scan) -> Found:
    # Planned each time: a plan that the server keeps is from when the tables had another size.
    listed = await connection.execute(scan.page.encode(), listing.values, prepare=False, binary=True)
    rows = [run_of(row) for row in await listed.fetchall()]
    last = await connection.execute(scan.end.encode(), listing.values, prepare=False)
    end = await last.fetchone()
    places = [Place(run.created_at, number) for number, run in rows]
    return Found([run for _, run in rows], places, Place(*end) if end is not None else None)
