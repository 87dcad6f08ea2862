"""Leases and limits in SQL.

A slot is a live lease of a run; limits count these leases inside the transaction that takes another, so at no
moment are more runs live than a limit allows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import inf
from typing import Any, Final

import apsw
from msgspec.structs import replace

from podium.log.ids import RunId
from podium.log.leases import IN_LINE, Fence, HeldLease, Lease
from podium.log.runs import Run
from podium.ports.store import Limit, SlotLine
from podium.stores import rules
from podium.stores.sqlite.moments import Moment

Scope = tuple[str, str, str]

# Value of the column `boot` for a lease that never lapses, and so outlives this boot: `expires` is infinite
# then.
_ANY_BOOT: Final = ""
_LIVE: Final = f"l.owner <> '' AND l.boot IN (?, '{_ANY_BOOT}') AND l.expires > ?"
_LIVE_RUNS: Final = (
    "SELECT r.tenant_id, r.project_id, r.plan_id, r.concurrency_key "
    f"FROM leases l CROSS JOIN runs r ON r.number = l.run WHERE l.attempt = '' AND {_LIVE}"
)
NOT_LIVE: Final = f"NOT EXISTS (SELECT 1 FROM leases l WHERE l.run = r.number AND l.attempt = '' AND {_LIVE})"
_PARKED_RUNS: Final = (
    "SELECT count(*), r.tenant_id, r.project_id, r.plan_id, r.concurrency_key FROM runs r "
    "INDEXED BY runs_keeping_slot WHERE r.keeps_slot AND r.status IN ('RUNNING', 'PAUSED') "
    f"AND r.tenant_id IN (SELECT tenant_id FROM limits) AND {NOT_LIVE} GROUP BY 2, 3, 4, 5"
)
_TAKE: Final = (
    "INSERT INTO leases (run, attempt, owner, generation, boot, expires) VALUES (?, ?, ?, 1, ?, ?) "
    "ON CONFLICT (run, attempt) DO UPDATE SET owner = excluded.owner, generation = generation + 1, "
    "boot = excluded.boot, expires = excluded.expires RETURNING generation"
)
_RENEW: Final = (
    "UPDATE leases SET boot = ?, expires = ? "
    "WHERE run = (SELECT number FROM runs WHERE run_id = ?) AND attempt = ? AND owner <> '' AND generation = ? "
    f"AND boot IN (?, '{_ANY_BOOT}') AND expires > ?"
)
_RELEASE: Final = "UPDATE leases SET owner = '' WHERE run = ? AND attempt = ? AND generation = ?"
_HELD: Final = (
    "SELECT l.owner, l.generation, l.boot, l.expires, r.updated_at FROM leases l CROSS JOIN runs r ON r.number = l.run "
    "WHERE l.run = ? AND l.attempt = '' AND l.owner <> ''"
)
_HELD_ATTEMPTS: Final = (
    "SELECT l.attempt, l.owner, l.generation, l.expires FROM leases l "
    f"WHERE l.run = ? AND l.attempt NOT IN ('', '{IN_LINE}') AND {_LIVE} ORDER BY l.attempt"
)
_OF_KEY: Final = (
    "SELECT r.run_id, l.owner, l.generation, l.expires FROM leases l CROSS JOIN runs r ON r.number = l.run "
    f"WHERE l.attempt = '{{attempt}}' AND {_LIVE} AND r.tenant_id = ? AND r.concurrency_key = ? ORDER BY {{order}}"
)
_WORKING: Final = _OF_KEY.format(attempt="", order="r.number")
_IN_LINE: Final = _OF_KEY.format(attempt=IN_LINE, order="r.priority DESC, r.number")
SERVED: Final = (
    "INSERT INTO tenants (tenant_id, served) SELECT ?, coalesce(max(served), 0) + 1 FROM tenants WHERE true "
    "ON CONFLICT (tenant_id) DO UPDATE SET served = excluded.served"
)


# --- leases ---------------------------------------------------------------------------------------


def live_lease(db: apsw.Connection, at: Moment, number: int, run_id: str, attempt: str) -> Lease | None:
    sql = (
        f"SELECT l.owner, l.generation, l.expires FROM leases l WHERE l.run = ? AND l.attempt = ? AND {_LIVE}"
    )
    row: Any | None = db.execute(sql, (number, attempt, at.boot, at.elapsed)).fetchone()
    return _lease(at, (run_id, *row), attempt) if row is not None else None


def held_generation(db: apsw.Connection, number: int, attempt: str) -> int | None:
    """The generation of a held lease, lapsed or not: it belongs to its holder until another process takes it."""
    sql = "SELECT generation FROM leases WHERE run = ? AND attempt = ? AND owner <> ''"
    row = db.execute(sql, (number, attempt)).fetchone()
    return row[0] if row is not None else None


def take(
    db: apsw.Connection, at: Moment, number: int, run_id: str, owner: str, ttl: timedelta | None, attempt: str
) -> Lease:
    boot, expires = _until(at, ttl)
    row = db.execute(_TAKE, (number, attempt, owner, boot, expires)).fetchone()
    assert row is not None
    return _lease(at, (run_id, owner, row[0], expires), attempt)


def renew(db: apsw.Connection, at: Moment, lease: Lease, ttl: timedelta | None) -> Lease | None:
    """None if it was lost or has lapsed."""
    fence = lease.fence
    boot, expires = _until(at, ttl)
    db.execute(_RENEW, (boot, expires, lease.run_id, fence.attempt, fence.generation, at.boot, at.elapsed))
    renewed = _lease(at, (lease.run_id, lease.owner, fence.generation, expires), fence.attempt)
    return renewed if db.changes() == 1 else None


def _until(at: Moment, ttl: timedelta | None) -> tuple[str, float]:
    """The columns `boot` and `expires`."""
    return (at.boot, at.elapsed_after(ttl)) if ttl is not None else (_ANY_BOOT, inf)


def release(db: apsw.Connection, number: int, fence: Fence) -> None:
    db.execute(_RELEASE, (number, fence.attempt, fence.generation))


def held_lease(db: apsw.Connection, at: Moment, number: int, run_id: str) -> HeldLease | None:
    row = db.execute(_HELD, (number,)).fetchone()
    if row is None:
        return None
    owner, generation, boot, expires, updated_at = row
    lease = _lease(at, (run_id, owner, generation, expires), "")
    if boot in (at.boot, _ANY_BOOT):
        return HeldLease(lease=lease, is_live=expires > at.elapsed)
    # Times of another boot are meaningless here, and its holder is gone: only the run's last change is known.
    return HeldLease(lease=replace(lease, expires_at=updated_at), is_live=False)


def held_attempts(db: apsw.Connection, at: Moment, number: int, run_id: str) -> list[HeldLease]:
    rows = db.execute(_HELD_ATTEMPTS, (number, at.boot, at.elapsed))
    return [HeldLease(lease=_lease(at, (run_id, *row), name), is_live=True) for name, *row in rows]


def give_up_all(db: apsw.Connection, number: int) -> None:
    db.execute("UPDATE leases SET owner = '' WHERE run = ? AND owner <> ''", (number,))


def slot_line(db: apsw.Connection, at: Moment, run: Run) -> SlotLine:
    """The live runs with this one's key, and those that wait."""
    if run.concurrency_key is None:
        return SlotLine((), ())
    asked = (at.boot, at.elapsed, run.identity.tenant_id, run.concurrency_key)
    return SlotLine(
        tuple(_lease(at, row, "") for row in db.execute(_WORKING, asked)),
        tuple(_lease(at, row, IN_LINE) for row in db.execute(_IN_LINE, asked)),
    )


def _lease(at: Moment, row: Any, attempt: str) -> Lease:
    run_id, owner, generation, expires = row
    expires_at = at.text_after(timedelta(seconds=expires - at.elapsed)) if expires != inf else None
    return Lease(run_id=RunId(run_id), owner=owner, fence=Fence(generation, attempt), expires_at=expires_at)


# --- limits ---------------------------------------------------------------------------------------


def set_limit(db: apsw.Connection, limit: Limit) -> None:
    db.execute(
        "INSERT INTO limits (tenant_id, scope, name, most) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (tenant_id, scope, name) DO UPDATE SET most = excluded.most",
        limit,
    )


def limits(db: apsw.Connection, tenant_id: str) -> list[Limit]:
    sql = "SELECT tenant_id, scope, name, most FROM limits WHERE tenant_id = ? ORDER BY scope, name, most"
    return [Limit(*row) for row in db.execute(sql, (tenant_id,))]


def remove_limit(db: apsw.Connection, tenant_id: str, scope: str, name: str) -> bool:
    db.execute("DELETE FROM limits WHERE tenant_id = ? AND scope = ? AND name = ?", (tenant_id, scope, name))
    return db.changes() == 1


def full_limit(db: apsw.Connection, at: Moment, scopes: Iterable[Scope]) -> str | None:
    """The first of these limits that a further run would exceed, in words."""
    found = list(scopes)
    set_limits = {limit[:3]: limit.most for limit in limits(db, found[0][0])}
    if not set_limits:
        return None
    taken = runs_with_slots(db, at)
    for scope in found:
        most = set_limits.get(scope)
        if most is not None and taken[scope] >= most:
            return rules.describe_limit(scope, most)
    return None


def live_runs(db: apsw.Connection, at: Moment) -> Counter[Scope]:
    """How many runs are live in each scope."""
    rows = db.execute(_LIVE_RUNS, (at.boot, at.elapsed))
    return Counter(scope for row in rows for scope in scopes_of(*row))


def runs_with_slots(db: apsw.Connection, at: Moment) -> Counter[Scope]:
    """How many runs count toward the limits of each scope: live ones, and parked ones of tenants with limits."""
    taken = live_runs(db, at)
    for parked, *of_run in db.execute(_PARKED_RUNS, (at.boot, at.elapsed)):
        for scope in scopes_of(*of_run):
            taken[scope] += parked
    return taken


def keeps_slot(db: apsw.Connection, number: int) -> bool:
    return bool(db.execute("SELECT keeps_slot FROM runs WHERE number = ?", (number,)).get)


def scopes_of(tenant: str, project: str, plan: str, concurrency: str | None) -> Iterator[Scope]:
    yield tenant, "tenant", tenant
    yield tenant, "project", project
    yield tenant, "plan", plan
    if concurrency is not None:
        yield tenant, "concurrency", concurrency
