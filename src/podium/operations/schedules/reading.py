"""Look at schedules and at what became of their times."""

from podium.operations.parts import Parts
from podium.schedules.schedule import Schedule, Tick


async def show_schedule(parts: Parts, tenant_id: str, schedule_id: str) -> Schedule:
    """Raises `ScheduleNotFound`."""
    await parts.require("schedule.view", tenant_id)
    return await parts.store.find_schedule(tenant_id, schedule_id)


async def list_schedules(
    parts: Parts, tenant_id: str, *, after: str = "", limit: int = 100
) -> list[Schedule]:
    """By id, from behind `after`."""
    await parts.require("schedule.view", tenant_id)
    return await parts.store.list_schedules(tenant_id, after=after, limit=limit)


async def list_ticks(
    parts: Parts, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
) -> list[Tick]:
    """The newest record first. Raises `ScheduleNotFound`."""
    await parts.require("schedule.view", tenant_id)
    return await parts.store.list_ticks(tenant_id, schedule_id, before=before, limit=limit)
