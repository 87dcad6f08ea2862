"""Queries on behalf of tenants: every statement here names the tenant."""

from typing import Any, Final

import apsw

from podium.errors import RunNotFound
from podium.log.runs import Run, RunPage, RunQuery
from podium.stores.listing import Dialect, Found, Listing, Place, Scan, further
from podium.stores.sqlite.rows import RUN_COLUMNS, run_of

_RUN_OF_TENANT: Final = f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.run_id = ? AND r.tenant_id = ?"
# The result of a co-routine is in its order.
_DIALECT: Final = Dialect(
    value=":{name}",
    contains="instr({within}, {text})",
    exists="EXISTS ({rows})",
    merged="{runs}",
    sorts_again=False,
)


def find(db: apsw.Connection, tenant_id: str, run_id: str) -> Run:
    try:
        row = db.execute(_RUN_OF_TENANT, (run_id, tenant_id)).fetchone()
    except UnicodeEncodeError:  # a lone surrogate: not an id, so no run has it
        row = None
    if row is None:
        raise RunNotFound(run_id)
    return run_of(row)


def page(db: apsw.Connection, tenant_id: str, query: RunQuery) -> RunPage:
    listing = Listing(_DIALECT, f"r.number, {RUN_COLUMNS}", tenant_id, query)
    longest: Found | None = None
    for scan in listing.scans():
        found = _found(db, listing, scan)
        if (full := found.page(query.limit)) is not None:
            return full
        longest = found if longest is None else further(longest, found)
    assert longest is not None
    return longest.short_page()


def _found(db: apsw.Connection, listing: Listing, scan: Scan) -> Found:
    rows: list[Any] = db.execute(scan.page, listing.values).fetchall()
    runs = [run_of(row[1:]) for row in rows]
    places = [Place(run.created_at, row[0]) for run, row in zip(runs, rows, strict=True)]
    end = db.execute(scan.end, listing.values).fetchone()
    return Found(runs, places, Place(*end) if end is not None else None)
