"""Reads schedules and the records of their times."""

from podium.errors import ScheduleNotFound
from podium.operations.parts import Parts
from podium.operations.schedules.views import TickView, tick_view
from podium.schedules.schedule import Schedule, Tick


async def show_schedule(parts: Parts, tenant_id: str, schedule_id: str) -> Schedule:
    """Raises `ScheduleNotFound`."""
    await parts.require("schedule.view", tenant_id)
    return await visible_schedule(parts, tenant_id, schedule_id)


async def visible_schedule(parts: Parts, tenant_id: str, schedule_id: str) -> Schedule:
    """Raises `ScheduleNotFound`, also for one of a project that the actor does not see."""
    found = await parts.store.find_schedule(tenant_id, schedule_id)
    if not parts.sees_project(found.definition.project_id):
        raise ScheduleNotFound(schedule_id)
    return found


async def list_schedules(
    parts: Parts, tenant_id: str, *, after: str = "", limit: int = 100
) -> list[Schedule]:
    """Sorted by id, starting after `after`."""
    await parts.require("schedule.view", tenant_id)
    found: list[Schedule] = []
    while True:
        page = await parts.store.list_schedules(tenant_id, after=after, limit=limit)
        found += [one for one in page if parts.sees_project(one.definition.project_id)]
        if len(page) < limit or len(found) >= limit:
            return found[:limit]
        after = page[-1].schedule_id


async def list_ticks(
    parts: Parts, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
) -> list[Tick]:
    """Newest record first. Raises `ScheduleNotFound`."""
    await parts.require("schedule.view", tenant_id)
    await visible_schedule(parts, tenant_id, schedule_id)
    return await parts.store.list_ticks(tenant_id, schedule_id, before=before, limit=limit)


async def last_tick(parts: Parts, one: Schedule) -> TickView | None:
    """What became of the last time of a schedule."""
    ticks = await list_ticks(parts, one.tenant_id, one.schedule_id, limit=1)
    return tick_view(ticks[0]) if ticks else None
