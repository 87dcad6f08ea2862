"""How many runs may be in progress: counted from leases and parked runs, never kept as a number that could drift.

The count is exact because whoever takes a run's lease holds the lock of its tenant from before the count until its
lease is committed. Leases that end in the meantime only make more room.
"""

from typing import Final

from podium.log.events import RunIdentity
from podium.ports.store import Limit
from podium.stores import rules, texts
from podium.stores.postgres.connections import Connection, Connections


def named(scope: str, run: str) -> str:
    """The SQL for the name that a run has in the scope of a limit."""
    return (
        f"CASE {scope} WHEN 'tenant' THEN {run}.tenant_id WHEN 'project' THEN {run}.project_id "
        f"WHEN 'plan' THEN {run}.plan_id WHEN 'concurrency' THEN {run}.concurrency_key END"
    )


# Common to everything that asks for room: which runs are live, which count toward limits, which limits are reached.
REACHED: Final = f"""
live AS MATERIALIZED (
    SELECT v.tenant_id, v.project_id, v.plan_id, v.concurrency_key
      FROM leases l JOIN runs v ON v.number = l.run
     WHERE l.attempt = '' AND l.owner <> '' AND l.expires_at > clock_timestamp()
),
taken AS MATERIALIZED (
    SELECT * FROM live
     UNION ALL
    SELECT v.tenant_id, v.project_id, v.plan_id, v.concurrency_key
      FROM runs v
     WHERE v.keeps_slot AND v.status IN ('RUNNING', 'PAUSED') AND v.tenant_id IN (SELECT tenant_id FROM limits)
       AND NOT EXISTS (SELECT FROM leases l WHERE l.run = v.number AND l.attempt = ''
                          AND l.owner <> '' AND l.expires_at > clock_timestamp())
),
reached AS MATERIALIZED (
    SELECT m.tenant_id, m.scope, m.name, m.most FROM limits m
     WHERE m.most <= (SELECT count(*) FROM taken
                       WHERE taken.tenant_id = m.tenant_id AND m.name = {named("m.scope", "taken")})
)
"""

_REACHED_BY_ONE_MORE: Final = f"""
WITH {REACHED}
SELECT f.scope, f.name, f.most
  FROM reached f, (SELECT %s::text AS tenant_id, %s::text AS project_id, %s::text AS plan_id,
                          %s::text AS concurrency_key) r
 WHERE f.tenant_id = r.tenant_id AND f.name = {named("f.scope", "r")}
 ORDER BY array_position(ARRAY['tenant', 'project', 'plan', 'concurrency'], f.scope) LIMIT 1
"""


async def reached(connection: Connection, run: RunIdentity, concurrency_key: str | None) -> str | None:
    """The first limit that leaves no room for this run, in words."""
    scope = [run.tenant_id, run.project_id, run.plan_id, concurrency_key]
    row = await (await connection.execute(_REACHED_BY_ONE_MORE, scope)).fetchone()
    if row is None:
        return None
    kind, name, most = row
    return rules.describe_limit((run.tenant_id, kind, name), most)


async def set_limit(connections: Connections, limit: Limit) -> None:
    texts.check_limit(limit)
    async with connections.writing() as connection:
        await connection.execute(
            "INSERT INTO limits (tenant_id, scope, name, most) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (tenant_id, scope, name) DO UPDATE SET most = excluded.most",
            [limit.tenant_id, limit.scope, limit.name, limit.most],
        )


async def remove_limit(connections: Connections, tenant_id: str, scope: str, name: str) -> bool:
    if not texts.could_be_kept(tenant_id, scope, name):
        return False
    async with connections.writing() as connection:
        removed = await connection.execute(
            "DELETE FROM limits WHERE tenant_id = %s AND scope = %s AND name = %s", [tenant_id, scope, name]
        )
    return removed.rowcount == 1


async def limits(connections: Connections, tenant_id: str) -> list[Limit]:
    if not texts.could_be_kept(tenant_id):
        return []
    async with connections.lend() as connection:
        found = await connection.execute(
            "SELECT tenant_id, scope, name, most FROM limits WHERE tenant_id = %s ORDER BY scope, name",
            [tenant_id],
        )
        return [Limit(*row) for row in await found.fetchall()]
