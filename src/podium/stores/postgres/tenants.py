"""Pages of the runs of a tenant."""

from typing import Final

from podium.log.runs import RunPage, RunQuery
from podium.stores.listing import Dialect, Found, Listing, Place, Scan, could_match, further, place_of
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import RUN, run_of

_DIALECT: Final = Dialect("%({name})s", "position({text} IN {within}) > 0", sorts_again=True)


async def page(connections: Connections, tenant_id: str, query: RunQuery) -> RunPage:
    place_of(query)
    if not could_match(tenant_id, query):
        return RunPage(runs=(), cursor=None)
    listing = Listing(_DIALECT, RUN, tenant_id, query)
    longest: Found | None = None
    async with connections.lend() as connection:
        for scan in listing.scans():
            found = await _found(connection, listing, scan)
            if (full := found.page(query.limit)) is not None:
                return full
            longest = found if longest is None else further(longest, found)
    assert longest is not None
    return longest.short_page()


async def _found(connection: Connection, listing: Listing, scan: Scan) -> Found:
    listed = await connection.execute(scan.page.encode(), listing.values, binary=True)
    rows = [run_of(row) for row in await listed.fetchall()]
    last = await connection.execute(scan.end.encode(), listing.values)
    end = await last.fetchone()
    places = [Place(run.created_at, number) for number, run in rows]
    return Found([run for _, run in rows], places, Place(*end) if end is not None else None)
