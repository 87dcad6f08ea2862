"""How many runs may be in progress: counted from leases and parked runs, never stored as a number that could
drift.

The count is exact because a process that takes a run's lease holds the lock of its tenant from before the
count until the lease is committed. Leases that end during that time only free slots.
"""

from typing import Final, Self

from podium.log.events import RunIdentity
from podium.log.runs import Run
from podium.ports.store import Limit
from podium.stores import rules, texts
from podium.stores.postgres.connections import Connection, Connections


def named(scope: str, run: str) -> str:
    """The SQL for the name that a run has in the scope of a limit."""
    return (
        f"CASE {scope} WHEN 'tenant' THEN {run}.tenant_id WHEN 'project' THEN {run}.project_id "
        f"WHEN 'plan' THEN {run}.plan_id WHEN 'concurrency' THEN {run}.concurrency_key END"
    )


# Common to all queries about free slots: which runs are live, and which count toward limits.
_COUNTED: Final = """
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
)
"""
_IN_PROGRESS: Final = f"""(SELECT count(*) FROM taken
    WHERE taken.tenant_id = m.tenant_id AND m.name = {named("m.scope", "taken")})"""
# The same, and which limits are reached.
REACHED: Final = f"""{_COUNTED},
reached AS MATERIALIZED (
    SELECT m.tenant_id, m.scope, m.name, m.most FROM limits m WHERE m.most <= {_IN_PROGRESS}
)
"""
_ROOM: Final = f"""
WITH {_COUNTED}
SELECT m.scope, m.name, m.most - {_IN_PROGRESS} FROM limits m WHERE m.tenant_id = %s
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
    """The first limit that does not admit this run, in words."""
    scope = [run.tenant_id, run.project_id, run.plan_id, concurrency_key]
    row = await (await connection.execute(_REACHED_BY_ONE_MORE, scope)).fetchone()
    if row is None:
        return None
    kind, name, most = row
    return rules.describe_limit((run.tenant_id, kind, name), most)


class Room:
    """How many more runs of a tenant its limits admit: counted once, then kept up to date by the caller.

    It is exact until the end of a transaction that holds the lock of the tenant.
    """

    def __init__(self, tenant_id: str, free: dict[tuple[str, str, str], int]) -> None:
        self._tenant_id = tenant_id
        self._free = free

    @classmethod
    async def of(cls, connection: Connection, tenant_id: str) -> Self:
        rows = await (await connection.execute(_ROOM.encode(), [tenant_id])).fetchall()
        return cls(tenant_id, {(tenant_id, scope, name): free for scope, name, free in rows})

    def full(self) -> list[tuple[str, str]]:
        """Scope and name of each limit that admits no further run."""
        return [(scope, name) for (_, scope, name), free in self._free.items() if free <= 0]

    def admits(self, run: Run) -> bool:
        return all(self._free.get(scope, 1) > 0 for scope in rules.scopes(run.identity, run.concurrency_key))

    def take(self, run: Run) -> None:
        for scope in rules.scopes(run.identity, run.concurrency_key):
            if scope in self._free:
                self._free[scope] -= 1


class PostgresLimits:
    """The part of `PostgresStore` for limits."""

    _connections: Connections

    async def set_limit(self, limit: Limit) -> None:
        texts.check_limit(limit)
        async with self._connections.writing() as connection:
            await connection.execute(
                "INSERT INTO limits (tenant_id, scope, name, most) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (tenant_id, scope, name) DO UPDATE SET most = excluded.most",
                [limit.tenant_id, limit.scope, limit.name, limit.most],
            )

    async def remove_limit(self, tenant_id: str, scope: str, name: str) -> bool:
        if not texts.could_be_kept(tenant_id, scope, name):
            return False
        async with self._connections.writing() as connection:
            removed = await connection.execute(
                "DELETE FROM limits WHERE tenant_id = %s AND scope = %s AND name = %s",
                [tenant_id, scope, name],
            )
        return removed.rowcount == 1

    async def limits(self, tenant_id: str) -> list[Limit]:
        if not texts.could_be_kept(tenant_id):
            return []
        async with self._connections.lend() as connection:
            found = await connection.execute(
                "SELECT tenant_id, scope, name, most FROM limits WHERE tenant_id = %s ORDER BY scope, name",
                [tenant_id],
            )
            return [Limit(*row) for row in await found.fetchall()]
