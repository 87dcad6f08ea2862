"""Limits of runs in progress, and the runs that wait because of them."""

from typing import Final

import msgspec

from podium.errors import PodiumError
from podium.log.ids import check_id
from podium.log.workers import PoolLoad, QueuedRun
from podium.operations.parts import Parts
from podium.ports.store import Limit as Limit

SCOPES: Final = ("tenant", "project", "plan", "concurrency")
MAX_LIMIT: Final = 1_000_000


class InvalidLimit(PodiumError):
    code = "INVALID_LIMIT"


class LimitNotFound(PodiumError):
    code = "LIMIT_NOT_FOUND"


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that waits to be started. `position` counts from 1 within the tenant and the pool."""

    run_id: str
    position: int
    plan_id: str
    plan_version: str
    priority: int
    created_at: str
    # Not before.
    start_at: str | None


class Queue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The waiting runs in the pools of a tenant; `runs` are those of one pool, if one was named."""

    pools: tuple[PoolLoad, ...]
    runs: tuple[QueueEntry, ...] = ()


async def list_limits(parts: Parts, tenant_id: str) -> list[Limit]:
    await parts.require("fleet.view", tenant_id)
    return await parts.store.limits(tenant_id)


async def set_limit(parts: Parts, tenant_id: str, scope: str, name: str | None, most: int) -> Limit:
    """`name`: of the project, plan or concurrency key; None for the scope tenant. Raises `InvalidLimit`."""
    limit = Limit(tenant_id, *_named(tenant_id, scope, name), most)
    if not 0 <= most <= MAX_LIMIT:
        valid = f"a number from 0 to {MAX_LIMIT}"
        raise InvalidLimit(f"a limit of {most} is not possible: use {valid}", "limit", valid)
    await parts.require("limit.set", tenant_id)
    await parts.store.set_limit(limit)
    return limit


async def remove_limit(parts: Parts, tenant_id: str, scope: str, name: str | None) -> None:
    """Raises `LimitNotFound`."""
    scope, name = _named(tenant_id, scope, name)
    await parts.require("limit.set", tenant_id)
    if not await parts.store.remove_limit(tenant_id, scope, name):
        raise LimitNotFound(f"no limit of {scope} {name!r}; `podium limits list` lists all limits")


def _named(tenant_id: str, scope: str, name: str | None) -> tuple[str, str]:
    if scope not in SCOPES:
        valid = ", ".join(SCOPES)
        raise InvalidLimit(f"{scope!r} cannot be limited: use one of {valid}", "scope", valid)
    if scope == "tenant":
        if name not in (None, tenant_id):
            raise InvalidLimit(
                "a limit of the scope 'tenant' has no name: it is that of the tenant itself", "name"
            )
        return scope, tenant_id
    if not name:
        raise InvalidLimit(f"a limit of the scope {scope!r} needs a name: which {scope} is limited", "name")
    check_id("name", name)
    return scope, name


async def show_queue(
    parts: Parts, tenant_id: str, pool: str | None = None, *, after: str = "", limit: int = 50
) -> Queue:
    """`after`: the last run of the previous page. Raises `RunNotFound` if it is not a run of the tenant."""
    await parts.require("fleet.view", tenant_id)
    loads = tuple(await parts.store.pool_loads(tenant_id))
    if pool is None:
        return Queue(pools=loads)
    return Queue(pools=loads, runs=tuple(await _visible(parts, tenant_id, pool, after, limit)))


async def _visible(parts: Parts, tenant_id: str, pool: str, after: str, limit: int) -> list[QueueEntry]:
    """Without runs of projects that the actor does not see."""
    found: list[QueueEntry] = []
    while True:
        page = await parts.store.queued(tenant_id, pool, after=after, limit=limit)
        found += [_entry(one) for one in page if parts.sees_project(one.run.identity.project_id)]
        if len(page) < limit or len(found) >= limit:
            return found[:limit]
        after = page[-1].run.identity.run_id


def _entry(queued: QueuedRun) -> QueueEntry:
    run = queued.run
    return QueueEntry(
        run_id=run.identity.run_id,
        position=queued.position,
        plan_id=run.identity.plan_id,
        plan_version=run.identity.plan_version,
        priority=run.priority,
        created_at=run.created_at,
        start_at=run.start_at,
    )
