"""Who owns a run or an attempt. Every moment here is the server's."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.leases import IN_LINE, Fence, HeldLease, Lease
from podium.log.runs import Run
from podium.ports.store import SlotLine
from podium.stores import rules, texts
from podium.stores.postgres import limits
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import EXPIRES, RUN, askable, run_of

_LOCK: Final = f"SELECT {RUN} FROM runs r WHERE run_id = %s FOR NO KEY UPDATE"
# When a lease that is claimed or renewed now lapses; without a ttl, never.
_UNTIL: Final = "coalesce(clock_timestamp() + %(ttl)s::interval, 'infinity')"
# Only a lease that is free, or has lapsed, is taken; otherwise no row is returned.
_TAKE: Final = f"""
INSERT INTO leases (run, attempt, owner, generation, expires_at)
VALUES (%(run)s, %(attempt)s, %(owner)s, 1, {_UNTIL})
ON CONFLICT (run, attempt) DO UPDATE
   SET owner = excluded.owner, generation = leases.generation + 1, expires_at = excluded.expires_at
 WHERE leases.owner = '' OR leases.expires_at <= clock_timestamp()
RETURNING generation, {EXPIRES}
"""
# Its owner claims it again.
_TAKE_AGAIN: Final = f"""
UPDATE leases SET expires_at = {_UNTIL}
 WHERE run = %(run)s AND attempt = %(attempt)s AND owner = %(owner)s AND owner <> '' AND expires_at > clock_timestamp()
RETURNING generation, {EXPIRES}
"""
_TAKE_OVER: Final = f"""
UPDATE leases SET owner = %(owner)s, generation = generation + 1, expires_at = {_UNTIL}
 WHERE run = %(run)s AND attempt = %(attempt)s AND owner = %(takes_over)s AND owner <> ''
   AND expires_at > clock_timestamp()
RETURNING generation, {EXPIRES}
"""
# A lease that has lapsed no longer holds a slot: it has to be claimed again.
_RENEW: Final = f"""
UPDATE leases SET expires_at = {_UNTIL}
 WHERE run = (SELECT number FROM runs WHERE run_id = %(run_id)s) AND attempt = %(attempt)s
   AND owner <> '' AND generation = %(generation)s AND expires_at > clock_timestamp()
RETURNING {EXPIRES}
"""
_RELEASE: Final = """
UPDATE leases SET owner = '', expires_at = '-infinity'
 WHERE run = (SELECT number FROM runs WHERE run_id = %s) AND attempt = %s AND generation = %s
"""

_HELD: Final = f"""
SELECT l.owner, l.generation, {EXPIRES}, l.expires_at > clock_timestamp()
  FROM runs r LEFT JOIN leases l ON l.run = r.number AND l.attempt = '' AND l.owner <> ''
 WHERE r.run_id = %s
"""

_HELD_ATTEMPTS: Final = f"""
SELECT l.attempt, r.run_id, l.owner, l.generation, {EXPIRES}
  FROM runs r LEFT JOIN leases l ON l.run = r.number AND l.attempt NOT IN ('', '{IN_LINE}')
                                AND l.owner <> '' AND l.expires_at > clock_timestamp()
 WHERE r.run_id = %s ORDER BY l.attempt
"""

_OF_KEY: Final = f"""
SELECT r.run_id, l.owner, l.generation, {EXPIRES}
  FROM leases l JOIN runs r ON r.number = l.run
 WHERE l.attempt = '{{attempt}}' AND l.owner <> '' AND l.expires_at > clock_timestamp()
   AND r.tenant_id = %s AND r.concurrency_key = %s ORDER BY {{order}}
"""
_WORKING: Final = _OF_KEY.format(attempt="", order="r.number")
_IN_LINE: Final = _OF_KEY.format(attempt=IN_LINE, order="r.priority DESC, r.number")

NOT_LIVE: Final = """NOT EXISTS (SELECT FROM leases l WHERE l.run = r.number AND l.attempt = ''
                      AND l.owner <> '' AND l.expires_at > clock_timestamp())"""


def _is_free(scope: str, column: str) -> str:
    """An uncorrelated list: it is hashed, so thousands of runs can be checked against hundreds of limits."""
    return (
        f"(r.tenant_id, r.{column}) NOT IN "
        f"(SELECT f.tenant_id, f.name FROM reached f WHERE f.scope = '{scope}')"
    )


HAS_ROOM: Final = f"""({_is_free("tenant", "tenant_id")} AND {_is_free("project", "project_id")}
    AND {_is_free("plan", "plan_id")}
    AND (r.concurrency_key IS NULL OR {_is_free("concurrency", "concurrency_key")}))"""


async def _take_over(
    connections: Connections,
    connection: Connection,
    number: int,
    run: Run,
    owner: str,
    ttl: timedelta | None,
    attempt: str,
    takes_over: str,
) -> Lease | None:
    if not attempt:
        # A lease that lapses while it is taken over must not be counted as a free slot.
        await connections.lock(connection, "tenant", run.identity.tenant_id)
    return await _take(connection, number, run, owner, ttl, attempt, sql=_TAKE_OVER, takes_over=takes_over)


async def _line(connection: Connection, run: Run) -> SlotLine:
    if run.concurrency_key is None:
        return SlotLine((), ())
    asked = [run.identity.tenant_id, run.concurrency_key]
    working = await (await connection.execute(_WORKING, asked)).fetchall()
    waiting = await (await connection.execute(_IN_LINE, asked)).fetchall()
    return SlotLine(tuple(_lease(row, "") for row in working), tuple(_lease(row, IN_LINE) for row in waiting))


def _lease(row: Sequence[Any], attempt: str) -> Lease:
    run_id, owner, generation, expires_at = row
    return Lease(run_id=RunId(run_id), owner=owner, fence=Fence(generation, attempt), expires_at=expires_at)


async def _locked(connection: Connection, run_id: str) -> tuple[int, Run]:
    found = await connection.execute(_LOCK, [run_id], binary=True)
    row = await found.fetchone()
    if row is None:
        raise RunNotFound(run_id)
    return run_of(row)


async def _keeps_slot(connection: Connection, number: int) -> bool:
    found = await connection.execute("SELECT keeps_slot FROM runs WHERE number = %s", [number])
    row = await found.fetchone()
    return row is not None and row[0]


async def _is_full(connections: Connections, connection: Connection, run: Run) -> bool:
    """Takes the lock of the tenant, so that the answer remains true until the transaction has ended."""
    await connections.lock(connection, "tenant", run.identity.tenant_id)
    return await limits.reached(connection, run.identity, run.concurrency_key) is not None


async def _take(
    connection: Connection,
    number: int,
    run: Run,
    owner: str,
    ttl: timedelta | None,
    attempt: str,
    *,
    sql: str = _TAKE,
    takes_over: str | None = None,
) -> Lease | None:
    asked: dict[str, Any] = {
        "run": number,
        "attempt": attempt,
        "owner": owner,
        "ttl": ttl,
        "takes_over": takes_over,
    }
    taken = await (await connection.execute(sql.encode(), asked)).fetchone()
    if taken is None:
        return None
    generation, expires_at = taken
    run_id = run.identity.run_id
    return Lease(run_id=run_id, owner=owner, fence=Fence(generation, attempt), expires_at=expires_at)


class PostgresLeases:
    """The part of `PostgresStore` for leases."""

    _connections: Connections

    async def claim(
        self,
        run_id: RunId,
        *,
        owner: str,
        ttl: timedelta | None,
        attempt: str = "",
        slots: int | None = None,
        takes_over: str | None = None,
    ) -> Lease | None:
        texts.check_holder(owner, attempt, takes_over)
        askable(run_id)
        async with self._connections.writing() as connection:
            number, run = await _locked(connection, run_id)
            again = await _take(connection, number, run, owner, ttl, attempt, sql=_TAKE_AGAIN)
            if again is not None:
                return again
            if takes_over is not None:
                taken = await _take_over(
                    self._connections, connection, number, run, owner, ttl, attempt, takes_over
                )
                if taken is not None:
                    return taken
            # The lease of an attempt needs no slot.
            if (
                not attempt
                and not await _keeps_slot(connection, number)
                and await _is_full(self._connections, connection, run)
            ):
                return None
            if slots is not None and not rules.has_slot(await _line(connection, run), run_id, slots):
                return None
            return await _take(connection, number, run, owner, ttl, attempt)

    async def slot_line(self, run_id: RunId) -> SlotLine:
        askable(run_id)
        async with self._connections.lend() as connection:
            found = await connection.execute(
                f"SELECT {RUN} FROM runs r WHERE run_id = %s", [run_id], binary=True
            )
            row = await found.fetchone()
            if row is None:
                raise RunNotFound(run_id)
            return await _line(connection, run_of(row)[1])

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        asked: dict[str, Any] = {
            "run_id": lease.run_id,
            "attempt": lease.fence.attempt,
            "generation": lease.fence.generation,
            "ttl": ttl,
        }
        async with self._connections.writing() as connection:
            row = await (await connection.execute(_RENEW, asked)).fetchone()
        return replace(lease, expires_at=row[0]) if row is not None else None

    async def release(self, lease: Lease) -> None:
        askable(lease.run_id)
        async with self._connections.writing() as connection:
            await _locked(connection, lease.run_id)
            await connection.execute(_RELEASE, [lease.run_id, lease.fence.attempt, lease.fence.generation])

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        askable(run_id)
        async with self._connections.lend() as connection:
            row = await (await connection.execute(_HELD, [run_id])).fetchone()
        if row is None:
            raise RunNotFound(run_id)
        owner, generation, expires_at, is_live = row
        if owner is None:
            return None
        lease = Lease(run_id=RunId(run_id), owner=owner, fence=Fence(generation), expires_at=expires_at)
        return HeldLease(lease=lease, is_live=is_live)

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        askable(run_id)
        async with self._connections.lend() as connection:
            rows = await (await connection.execute(_HELD_ATTEMPTS, [run_id])).fetchall()
        if not rows:
            raise RunNotFound(run_id)
        return [HeldLease(lease=_lease(row, name), is_live=True) for name, *row in rows if name is not None]
