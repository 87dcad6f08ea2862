"""Runs of pools: claimed many at a time, renewed with one statement, parked while they wait."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.leases import Fence, Lease
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.log.transitions import NOT_STARTED
from podium.ports.store import Claimed
from podium.stores import rules, texts
from podium.stores.postgres import limits
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.leases import HAS_ROOM, NOT_LIVE
from podium.stores.postgres.limits import REACHED, Room
from podium.stores.postgres.rows import EXPIRES, NOW, RUN, askable, run_of

_OPEN: Final = "('PENDING', 'APPROVED', 'RUNNING', 'PAUSED')"
_FREE: Final = f"r.pool = %(pool)s AND r.pool IS NOT NULL AND {NOT_LIVE}"
_LEFT: Final = f"{_FREE} AND {HAS_ROOM} AND r.wake_at IS NULL AND r.status IN ('RUNNING', 'PAUSED')"
# A parked run has kept its slot. A run that a signal has woken before its turn does not start.
_NEEDS_NO_ROOM: Final = "(r.keeps_slot OR r.status IN ('PENDING', 'APPROVED'))"
_WOKEN: Final = f"""{_FREE} AND r.wake_at IS NOT NULL AND r.wake_at <= {NOW} AND r.status IN {_OPEN}
    AND ({_NEEDS_NO_ROOM} OR {HAS_ROOM})"""
_OF_KEY: Final = (
    f"o.tenant_id = r.tenant_id AND o.concurrency_key = r.concurrency_key AND o.concurrency_limit IS NOT NULL "
    f"AND o.status IN {_OPEN}"
)
# Counted only up to the limit, however many wait.
_HAS_TURN: Final = f"""(r.concurrency_limit IS NULL OR
    (SELECT count(*) FROM (SELECT FROM runs o WHERE {_OF_KEY} AND o.number < r.number
                            LIMIT r.concurrency_limit) older)
  + (SELECT count(*) FROM (SELECT FROM runs o WHERE {_OF_KEY} AND o.has_turn AND o.number > r.number
                            LIMIT r.concurrency_limit) younger) < r.concurrency_limit)"""
_QUEUED: Final = f"""{_FREE} AND {HAS_ROOM} AND r.wake_at IS NULL
    AND (r.status = 'APPROVED' OR (r.status = 'PENDING' AND NOT r.needs_approval))
    AND (r.start_at IS NULL OR r.start_at <= {NOW}) AND {_HAS_TURN}"""
_TENANTS: Final = f"""
WITH {REACHED}
SELECT t.tenant_id
  FROM tenants t
 CROSS JOIN LATERAL (
     (SELECT 0 AS kind, 0 AS priority, r.number FROM runs r WHERE r.tenant_id = t.tenant_id AND {_LEFT} LIMIT 1)
     UNION ALL
     (SELECT 1, 0, r.number FROM runs r WHERE r.tenant_id = t.tenant_id AND {_WOKEN} LIMIT 1)
     UNION ALL
     (SELECT 2, -r.priority, r.number FROM runs r WHERE r.tenant_id = t.tenant_id AND {_QUEUED}
       ORDER BY r.priority DESC, r.number LIMIT 1)
     ORDER BY kind LIMIT 1) first
 WHERE %(tenants)s::text[] IS NULL OR t.tenant_id = ANY(%(tenants)s::text[])
 ORDER BY (SELECT count(*) FROM live WHERE live.tenant_id = t.tenant_id), t.served, first.priority, first.number
"""


# Which limits are full is known when candidates are selected, see `Room`.
_FULL: Final = """
reached AS MATERIALIZED (
    SELECT %(tenant)s::text AS tenant_id, f.scope, f.name
      FROM unnest(%(scopes)s::text[], %(names)s::text[]) AS f (scope, name)
)
"""
_COUNTS_ALREADY: Final = "(r.keeps_slot AND r.status IN ('RUNNING', 'PAUSED'))"


def _select(condition: str, order: str, *, needs_room: str = "true") -> str:
    return f"""
WITH {_FULL}
SELECT {needs_room}, {_COUNTS_ALREADY}, {RUN} FROM runs r
 WHERE r.tenant_id = %(tenant)s AND {condition} AND r.number <> ALL(%(found)s::bigint[])
 ORDER BY {order} LIMIT %(limit)s FOR NO KEY UPDATE OF r SKIP LOCKED
"""


_KINDS: Final = (
    (_select(_LEFT, "r.number"), False),
    (_select(_WOKEN, "r.wake_at, r.number", needs_room=f"NOT {_NEEDS_NO_ROOM}"), False),
    (_select(_QUEUED, "r.priority DESC, r.number"), True),
)
_STARTED: Final = ("RUNNING", "PAUSED")
_TAKE_ALL: Final = f"""
INSERT INTO leases (run, attempt, owner, generation, expires_at)
SELECT run, '', %(owner)s, 1, clock_timestamp() + %(ttl)s::interval FROM unnest(%(runs)s::bigint[]) AS run
ON CONFLICT (run, attempt) DO UPDATE
   SET owner = excluded.owner, generation = leases.generation + 1, expires_at = excluded.expires_at
 WHERE leases.owner = '' OR leases.expires_at <= clock_timestamp()
RETURNING run, generation, {EXPIRES}
"""
_MARK: Final = """
UPDATE runs SET wake_at = NULL, keeps_slot = false, has_turn = has_turn OR number = ANY(%(starting)s::bigint[])
 WHERE number = ANY(%(runs)s::bigint[])
   AND (wake_at IS NOT NULL
        OR (concurrency_limit IS NOT NULL AND NOT has_turn AND number = ANY(%(starting)s::bigint[])))
"""
_RENEW_ALL: Final = f"""
UPDATE leases SET expires_at = clock_timestamp() + %(ttl)s::interval
  FROM unnest(%(run_ids)s::text[], %(generations)s::bigint[]) AS asked (run_id, generation)
  JOIN runs r ON r.run_id = asked.run_id
 WHERE leases.run = r.number AND leases.attempt = '' AND leases.owner <> ''
   AND leases.generation = asked.generation AND leases.expires_at > clock_timestamp()
RETURNING r.run_id, {EXPIRES}
"""
_PARK: Final = """
UPDATE runs SET wake_at = %s, keeps_slot = true
 WHERE run_id = %s AND head = %s AND pool IS NOT NULL
   AND EXISTS (SELECT FROM leases WHERE run = number AND attempt = '' AND owner <> '' AND generation = %s)
RETURNING number
"""
_GIVE_UP: Final = """
UPDATE leases SET owner = '', expires_at = '-infinity' WHERE run = %s AND attempt = '' AND generation = %s
"""
_MOVED: Final = """
SELECT r.run_id FROM unnest(%s::text[], %s::bigint[]) AS asked (run_id, head)
  JOIN runs r ON r.run_id = asked.run_id WHERE r.head > asked.head
"""


# Its number, the run, and whether it may start.
_Found = tuple[int, Run, bool]


async def _claim_of(
    connections: Connections, tenant: str, pool: str, owner: str, ttl: timedelta, limit: int
) -> list[Claimed]:
    async with connections.writing(connections.key("tenant", tenant)) as connection:
        room = await Room.of(connection, tenant)
        found: list[_Found] = []
        queued = False
        for sql, is_queue in _KINDS:
            before = len(found)
            await _find(connection, sql, is_queue, tenant, pool, limit, room, found)
            queued = is_queue and len(found) > before
        claimed = await _take(connection, found, owner, ttl) if found else []
        if queued:
            turn = "UPDATE tenants SET served = nextval('turns') WHERE tenant_id = %s"
            await connection.execute(turn, [tenant])
    return claimed


async def _find(
    connection: Connection,
    sql: str,
    is_queue: bool,
    tenant: str,
    pool: str,
    limit: int,
    room: Room,
    found: list[_Found],
) -> None:
    """Add the candidates of one kind that fit, in their order.

    If one does not fit, those before it have filled a limit: the rest is selected again without the runs of
    that limit. So a claim selects once for each limit that it fills, however many runs it takes.
    """
    all_fit = False
    while not all_fit and len(found) < limit:
        full = room.full()
        asked: dict[str, Any] = {
            "tenant": tenant,
            "pool": pool,
            "limit": limit - len(found),
            "found": [number for number, _, _ in found],
            "scopes": [scope for scope, _ in full],
            "names": [name for _, name in full],
        }
        rows = await (await connection.execute(sql.encode(), asked, binary=True)).fetchall()
        all_fit = True
        for needs_room, counts_already, *of_run in rows:
            number, run = run_of(tuple(of_run))
            if needs_room and not room.admits(run):
                all_fit = False
                continue
            found.append((number, run, is_queue or run.status in _STARTED))
            if not counts_already:
                room.take(run)


async def _take(connection: Connection, found: Sequence[_Found], owner: str, ttl: timedelta) -> list[Claimed]:
    asked: dict[str, Any] = {
        "owner": owner,
        "ttl": ttl,
        "runs": [number for number, _, _ in found],
        "starting": [number for number, _, may_start in found if may_start],
    }
    rows = await (await connection.execute(_TAKE_ALL.encode(), asked)).fetchall()
    await connection.execute(_MARK, asked)
    leases = {number: (generation, expires_at) for number, generation, expires_at in rows}
    claimed = []
    for number, run, may_start in found:
        if number in leases:
            generation, expires_at = leases[number]
            lease = Lease(
                run_id=run.identity.run_id, owner=owner, fence=Fence(generation), expires_at=expires_at
            )
            claimed.append(Claimed(run, lease, may_start))
    return claimed


class PostgresPools:
    """The part of `PostgresStore` for pools."""

    _connections: Connections

    async def claim_of_pool(
        self,
        pool: str,
        *,
        owner: str,
        ttl: timedelta,
        limit: int = 1,
        tenants: frozenset[str] | None = None,
    ) -> list[Claimed]:
        """Find tenants with candidates without locks, then claim under the lock of one tenant at a time."""
        texts.check_holder(owner)
        if not texts.could_be_kept(pool) or limit < 1:
            return []
        async with self._connections.lend() as connection:
            of = sorted(filter(texts.could_be_kept, tenants)) if tenants is not None else None
            found = await connection.execute(_TENANTS.encode(), {"pool": pool, "tenants": of})
            names = [name for (name,) in await found.fetchall()]
        claimed: list[Claimed] = []
        while names and len(claimed) < limit:
            share = max(1, (limit - len(claimed)) // len(names))
            with_more = []
            for tenant in names:
                most = min(share, limit - len(claimed))
                batch = await _claim_of(self._connections, tenant, pool, owner, ttl, most) if most else []
                claimed += batch
                if len(batch) == most:
                    with_more.append(tenant)
            names = with_more
        return claimed

    async def held_back_by(self, run_id: RunId) -> str | None:
        askable(run_id)
        asked = f"SELECT {RUN}, {_HAS_TURN}, {NOT_LIVE} FROM runs r WHERE run_id = %s"
        async with self._connections.lend() as connection:
            row = await (await connection.execute(asked.encode(), [run_id], binary=True)).fetchone()
            if row is None:
                raise RunNotFound(run_id)
            *of_run, has_turn, is_free = row
            _, run = run_of(tuple(of_run))
            if run.pool is None or run.status not in NOT_STARTED or not is_free:
                return None
            if full := await limits.reached(connection, run.identity, run.concurrency_key):
                return full
        return rules.describe_key(run) if not has_turn else None

    async def renew_all(self, leases: Sequence[Lease], *, ttl: timedelta) -> list[Lease]:
        asked: dict[str, Any] = {
            "ttl": ttl,
            "run_ids": [lease.run_id for lease in leases],
            "generations": [lease.fence.generation for lease in leases],
        }
        async with self._connections.writing() as connection:
            rows = await (await connection.execute(_RENEW_ALL.encode(), asked)).fetchall()
        until = dict(rows)
        return [replace(lease, expires_at=until[lease.run_id]) for lease in leases if lease.run_id in until]

    async def park(self, lease: Lease, *, after: int, until: Timestamp | None) -> bool:
        run_id, generation = askable(lease.run_id), lease.fence.generation
        async with self._connections.writing() as connection:
            lock = "SELECT number FROM runs WHERE run_id = %s FOR NO KEY UPDATE"
            if await (await connection.execute(lock, [run_id])).fetchone() is None:
                raise RunNotFound(run_id)
            parked = await connection.execute(_PARK, [until or rules.NEVER, run_id, after, generation])
            row = await parked.fetchone()
            if row is not None:
                await connection.execute(_GIVE_UP, [row[0], generation])
        return row is not None

    async def moved(self, heads: Mapping[RunId, int]) -> list[RunId]:
        async with self._connections.lend() as connection:
            found = await connection.execute(_MOVED, [list(heads), list(heads.values())])
            return [RunId(run_id) for (run_id,) in await found.fetchall()]
