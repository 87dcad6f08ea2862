"""What tenants may ask: every statement here names the tenant."""

from typing import Any, Final

import apsw

from podium.errors import RunNotFound
from podium.log.runs import Run, RunPage, RunQuery
from podium.stores.sqlite.rows import RUN_COLUMNS, run_of

_RUN_OF_TENANT: Final = f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.run_id = ? AND r.tenant_id = ?"


def find(db: apsw.Connection, tenant_id: str, run_id: str) -> Run:
    try:
        row = db.execute(_RUN_OF_TENANT, (run_id, tenant_id)).fetchone()
    except UnicodeEncodeError:  # half a character: no id, and no run has it
        row = None
    if row is None:
        raise RunNotFound(run_id)
    return run_of(row)


def page(db: apsw.Connection, tenant_id: str, query: RunQuery, last: int | None) -> RunPage:
    conditions, values = ["r.tenant_id = ?"], [tenant_id]
    wanted: list[tuple[str, Any]] = [
        ("r.project_id = ?", query.project_id),
        ("r.environment_id = ?", query.environment_id),
        ("r.plan_id = ?", query.plan_id),
        ("r.created_at < ?", query.created_before),
        ("r.number < ?", last),
    ]
    for condition, value in wanted:
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if query.statuses:
        conditions.append(f"r.status IN ({', '.join('?' * len(query.statuses))})")
        values += [status.value for status in query.statuses]
    sql = (
        f"SELECT r.number, {RUN_COLUMNS} FROM runs r WHERE {' AND '.join(conditions)} "
        "ORDER BY r.number DESC LIMIT ?"
    )
    # One more than asked for says whether there is another page.
    rows: list[Any] = db.execute(sql, (*values, query.limit + 1)).fetchall()
    shown = rows[: query.limit]
    cursor = str(shown[-1][0]) if len(rows) > len(shown) else None
    return RunPage(runs=tuple(run_of(row[1:]) for row in shown), cursor=cursor)
