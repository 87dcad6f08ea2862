"""Runs of pools in SQL: claimed many at a time, renewed with one statement, parked while they wait.

A batch is first selected and then claimed. Whether a run may start because of its key does not depend on the
rest of the batch: only on the runs of its key that are older, or had their turn.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from heapq import heapify, heappop, heappush
from typing import Any, Final

import apsw
import msgspec

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.runs import Run
from podium.log.transitions import NOT_STARTED
from podium.ports.store import Claimed
from podium.stores import rules, texts
from podium.stores.sqlite import log, ownership
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.ownership import NOT_LIVE, Scope

_OPEN: Final = "('PENDING', 'APPROVED', 'RUNNING', 'PAUSED')"
_STARTED: Final = "('RUNNING', 'PAUSED')"
_SCOPES: Final = "r.tenant_id, r.project_id, r.plan_id, r.concurrency_key"
_OF_TENANTS: Final = "(? IS NULL OR r.tenant_id IN (SELECT value FROM json_each(?)))"
# The third column: whether it needs a slot.
_LEFT: Final = (
    f"SELECT r.number, 1, 1, {_SCOPES} FROM runs r INDEXED BY runs_started_in_pool "
    f"WHERE r.pool = ? AND r.pool IS NOT NULL AND r.wake_at IS NULL AND r.status IN {_STARTED} AND {NOT_LIVE} "
    f"AND {_OF_TENANTS} "
    "ORDER BY r.number"
)
_WOKEN: Final = (
    f"SELECT r.number, r.status IN {_STARTED}, r.status IN {_STARTED} AND NOT r.keeps_slot, {_SCOPES} "
    "FROM runs r INDEXED BY runs_parked "
    f"WHERE r.pool = ? AND r.wake_at IS NOT NULL AND r.status IN {_OPEN} AND {NOT_LIVE} AND {_OF_TENANTS} "
    "AND r.wake_at <= ? "
    "ORDER BY r.wake_at, r.number"
)
# Skips from one tenant to the next in the index.
_TENANTS: Final = (
    "WITH RECURSIVE queued (tenant_id) AS ("
    "SELECT min(tenant_id) FROM runs WHERE waiting AND pool = ?1 AND pool IS NOT NULL AND wake_at IS NULL "
    "UNION ALL SELECT (SELECT min(tenant_id) FROM runs WHERE waiting AND pool = ?1 AND pool IS NOT NULL "
    "AND wake_at IS NULL AND tenant_id > q.tenant_id) FROM queued q WHERE q.tenant_id IS NOT NULL) "
    "SELECT q.tenant_id, coalesce(t.served, 0) FROM queued q LEFT JOIN tenants t USING (tenant_id) "
    "WHERE q.tenant_id IS NOT NULL"
)
_OF_KEY: Final = (
    f"SELECT count(*) FROM (SELECT 1 FROM runs WHERE tenant_id = ? AND concurrency_key = ? AND status IN {_OPEN} "
    "AND concurrency_limit IS NOT NULL AND {which} LIMIT ?)"
)
# Counted only up to the limit, however many wait.
_OLDER: Final = _OF_KEY.format(which="number < ?")
_YOUNGER: Final = _OF_KEY.format(which="has_turn AND number > ?")
_QUEUED: Final = (
    f"SELECT r.number, 1, {_SCOPES}, -r.priority, r.concurrency_limit FROM runs r INDEXED BY runs_queued_in_pool "
    f"WHERE waiting AND r.pool = ? AND r.pool IS NOT NULL AND r.wake_at IS NULL AND r.tenant_id = ? "
    f"AND (r.start_at IS NULL OR r.start_at <= ?) AND {NOT_LIVE} "
    "ORDER BY r.priority DESC, r.number"
)
_MARK: Final = (
    "UPDATE runs SET wake_at = NULL, keeps_slot = 0, has_turn = has_turn OR (? AND concurrency_limit IS NOT NULL) "
    "WHERE number = ? AND (wake_at IS NOT NULL OR (concurrency_limit IS NOT NULL AND NOT has_turn AND ?))"
)
_RENEW_ALL: Final = (
    "UPDATE leases SET boot = ?, expires = ? FROM ("
    "SELECT r.number AS number, a.value ->> 1 AS generation FROM json_each(?) a CROSS JOIN runs r "
    "ON r.run_id = a.value ->> 0) asked "
    "WHERE run = asked.number AND attempt = '' AND owner <> '' AND leases.generation = asked.generation "
    "AND boot = ? AND expires > ? RETURNING (SELECT run_id FROM runs WHERE number = run)"
)
_MOVED: Final = (
    "SELECT r.run_id FROM json_each(?) a CROSS JOIN runs r ON r.run_id = a.key WHERE r.head > a.value"
)

# Number, whether it may start, whether it needs a slot, scopes.
_Candidate = tuple[int, bool, bool, tuple[Any, ...]]
# Priority, number, scopes.
_Queued = tuple[int, int, tuple[Any, ...]]


def claim(
    db: apsw.Connection,
    at: Moment,
    pool: str,
    owner: str,
    ttl: timedelta,
    limit: int,
    tenants: frozenset[str] | None,
) -> list[Claimed]:
    claimed = []
    for number, may_start in _choose(db, at, pool, limit, tenants):
        db.execute(_MARK, (may_start, number, may_start))
        run = log.run_by_number(db, number)
        lease = ownership.take(db, at, number, run.identity.run_id, owner, ttl, "")
        claimed.append(Claimed(run, lease, may_start))
    return claimed


def _choose(
    db: apsw.Connection, at: Moment, pool: str, limit: int, tenants: frozenset[str] | None
) -> list[tuple[int, bool]]:
    room = _Room(db, at)
    chosen: list[tuple[int, bool]] = []
    named = None
    if tenants is not None:
        named = msgspec.json.encode([one for one in tenants if texts.could_be_kept(one)]).decode()
    free = (pool, at.boot, at.elapsed, named, named)
    for sql, asked in [(_LEFT, free), (_WOKEN, (*free, at.text))]:
        for number, may_start, needs_slot, scopes in _candidates(db, sql, asked):
            if len(chosen) == limit:
                return chosen
            # A parked run has kept its slot. A run that a signal has woken before its turn does not start.
            if not needs_slot or room.take(scopes):
                chosen.append((number, bool(may_start)))
    chosen += [(number, True) for number in _queued(db, at, pool, room, limit - len(chosen), tenants)]
    return chosen


def _candidates(db: apsw.Connection, sql: str, asked: tuple[Any, ...]) -> Iterator[_Candidate]:
    return ((row[0], row[1], row[2], row[3:7]) for row in db.execute(sql, asked))


def _queued(
    db: apsw.Connection, at: Moment, pool: str, room: "_Room", limit: int, of: frozenset[str] | None
) -> Iterator[int]:
    """Tenants with fewer live runs come first, then the one served longest ago, then priority and age."""
    if limit <= 0:
        return
    waiting: list[Any] = db.execute(_TENANTS, (pool,)).fetchall()
    tenants = [row for row in waiting if of is None or row[0] in of]
    if len(tenants) > 1:
        room.count()
    queues = []
    for tenant, served in tenants:
        asked = (pool, tenant, at.text, at.boot, at.elapsed)
        queues.append(_TenantQueue(tenant, room, served, _with_turn(db, db.execute(_QUEUED, asked))))
    turns = [(queue.turn, place) for place, queue in enumerate(queues) if queue.advance()]
    heapify(turns)
    turn = max((served for _, served in tenants), default=0)
    while turns and limit:
        _, place = heappop(turns)
        queue = queues[place]
        number = queue.first[1]
        if room.take(queue.scopes):
            yield number
            limit -= 1
            turn += 1
            queue.served = turn
        if queue.advance():
            heappush(turns, (queue.turn, place))
    for queue in queues:
        queue.close()
    for queue in sorted((one for one in queues if one.was_served), key=lambda one: one.served):
        db.execute(ownership.SERVED, (queue.tenant,))


def _with_turn(db: apsw.Connection, rows: Iterator[Any]) -> Iterator[_Queued]:
    """The runs that the limits of their keys admit.

    If a run has to wait for its key, so do younger runs of the key with the same limit or a lower one:
    nothing is counted for them. Rows are ordered by priority, so an older run of the key may still follow.
    """
    refused: dict[str, tuple[int, int]] = {}
    for number, _, tenant, project, plan, key, priority, limit in rows:
        if limit is not None:
            oldest, highest = refused.get(key, (number, 0))
            if number > oldest and limit <= highest:
                continue
            asked = (tenant, key, number, limit)
            before = [db.execute(sql, asked).get for sql in (_OLDER, _YOUNGER)]
            if sum(map(int, before)) >= limit:
                refused[key] = (number, limit)
                continue
        yield priority, number, (tenant, project, plan, key)


class _TenantQueue:
    """The queued runs of one tenant, in the order of their starts."""

    def __init__(self, tenant: str, room: "_Room", served: int, rows: Iterator[_Queued]) -> None:
        self.tenant = tenant
        self.served = self._served_before = served
        self._room = room
        self._rows: Iterator[_Queued] | None = rows
        self.first = (0, 0)
        self.scopes: tuple[Any, ...] = ()

    @property
    def was_served(self) -> bool:
        return self.served != self._served_before

    @property
    def turn(self) -> tuple[int, int, int, int]:
        return self._room.live_of(self.tenant), self.served, *self.first

    def advance(self) -> bool:
        found = next(self._rows, None) if self._rows is not None else None
        if found is None:
            return False
        priority, number, self.scopes = found
        self.first = (priority, number)
        return True

    def close(self) -> None:
        """An unfinished statement prevents others from committing."""
        self._rows = None


class _Room:
    """How many more runs each limit admits; without limits nothing is counted."""

    def __init__(self, db: apsw.Connection, at: Moment) -> None:
        self._db, self._at = db, at
        # The turn of a tenant depends on its live runs; the capacity of a limit also on the parked ones.
        self._live: Counter[Scope] = Counter()
        self._taken: Counter[Scope] = Counter()
        self._is_counted = False
        rows = db.execute("SELECT tenant_id, scope, name, most FROM limits")
        self._limits: dict[Scope, int] = {(tenant, scope, name): most for tenant, scope, name, most in rows}
        if self._limits:
            self.count()
            self._taken = ownership.runs_with_slots(db, at)

    def count(self) -> None:
        if not self._is_counted:
            self._live, self._is_counted = ownership.live_runs(self._db, self._at), True

    def live_of(self, tenant: str) -> int:
        return self._live[tenant, "tenant", tenant]

    def take(self, scopes: tuple[Any, ...]) -> bool:
        names = list(ownership.scopes_of(*scopes)) if self._is_counted else ()
        if any(self._taken[name] >= self._limits[name] for name in names if name in self._limits):
            return False
        self._live.update(names)
        self._taken.update(names)
        return True


def held_back_by(db: apsw.Connection, at: Moment, run_id: str) -> str | None:
    run, number = log.get_run(db, run_id), log.number_of(db, run_id)
    if run.pool is None or run.status not in NOT_STARTED:
        return None
    if ownership.live_lease(db, at, number, run_id, "") is not None:
        return None
    if full := ownership.full_limit(db, at, rules.scopes(run.identity, run.concurrency_key)):
        return full
    return rules.describe_key(run) if not _is_its_turn(db, run, number) else None


def _is_its_turn(db: apsw.Connection, run: Run, number: int) -> bool:
    limit = run.concurrency_limit
    if limit is None:
        return True
    asked = (run.identity.tenant_id, run.concurrency_key, number, limit)
    return sum(int(db.execute(sql, asked).get) for sql in (_OLDER, _YOUNGER)) < limit


def renew_all(db: apsw.Connection, at: Moment, leases: Sequence[Lease], ttl: timedelta) -> list[Lease]:
    asked = msgspec.json.encode([(lease.run_id, lease.fence.generation) for lease in leases]).decode()
    expires = at.elapsed_after(ttl)
    rows = db.execute(_RENEW_ALL, (at.boot, expires, asked, at.boot, at.elapsed)).fetchall()
    renewed, until = {run_id for (run_id,) in rows}, at.text_after(ttl)
    return [msgspec.structs.replace(lease, expires_at=until) for lease in leases if lease.run_id in renewed]


def park(db: apsw.Connection, lease: Lease, after: int, until: str | None) -> bool:
    number = log.number_of(db, lease.run_id)
    if ownership.held_generation(db, number, "") != lease.fence.generation:
        return False
    parked = "UPDATE runs SET wake_at = ?, keeps_slot = 1 WHERE number = ? AND head = ? AND pool IS NOT NULL"
    db.execute(parked, (until or rules.NEVER, number, after))
    if not db.changes():
        return False
    ownership.release(db, number, lease.fence)
    return True


def moved(db: apsw.Connection, heads: Mapping[RunId, int]) -> list[RunId]:
    rows = db.execute(_MOVED, (msgspec.json.encode(heads).decode(),))
    return [RunId(run_id) for (run_id,) in rows]
