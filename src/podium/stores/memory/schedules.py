"""Schedules of the store in memory."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from podium.errors import ScheduleExists, ScheduleNotFound
from podium.log.times import Timestamp
from podium.ports.clock import Clock
from podium.ports.schedule_changes import MAX_TICKS, ChangedSchedule, DueAfter, PreparedRun
from podium.schedules.schedule import Schedule, Tick
from podium.stores import schedule_rows, texts
from podium.stores.memory.log import MemoryLog


@dataclass
class _Kept:
    schedule: Schedule
    contents: dict[str, bytes]
    ticks: list[Tick] = field(default_factory=list)


class MemorySchedules(MemoryLog):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._schedules: dict[tuple[str, str], _Kept] = {}

    async def add_schedule(self, schedule: Schedule, contents: Mapping[str, bytes]) -> None:
        schedule_rows.check_schedule(schedule)
        texts.check_contents(contents)
        key = (schedule.tenant_id, schedule.schedule_id)
        if key in self._schedules:
            raise ScheduleExists(schedule.schedule_id)
        self._schedules[key] = _Kept(schedule, dict(contents))

    async def find_schedule(self, tenant_id: str, schedule_id: str) -> Schedule:
        return self._schedule(tenant_id, schedule_id).schedule

    async def list_schedules(self, tenant_id: str, *, after: str = "", limit: int = 100) -> list[Schedule]:
        of_tenant = sorted(key for key in self._schedules if key[0] == tenant_id and key[1] > after)
        return [self._schedules[key].schedule for key in of_tenant[:limit]]

    async def schedule_contents(self, tenant_id: str, schedule_id: str) -> dict[str, bytes]:
        return dict(self._schedule(tenant_id, schedule_id).contents)

    async def change_schedule(
        self,
        schedule: Schedule,
        *,
        ticks: Sequence[Tick] = (),
        run: PreparedRun | None = None,
        contents: Mapping[str, bytes] | None = None,
    ) -> ChangedSchedule | None:
        schedule_rows.check_schedule(schedule)
        texts.check_contents(contents or ())
        kept = self._schedules.get((schedule.tenant_id, schedule.schedule_id))
        if kept is None or kept.schedule.revision != schedule.revision:
            return None
        created = None
        if run is not None:
            created = await self.create_run(run.new, run.writes, run.contents, audit=run.audit)
        changed = schedule_rows.changed(schedule, ticks, created)
        kept.schedule = changed.schedule
        kept.ticks = [*kept.ticks, *changed.ticks][-MAX_TICKS:]
        if contents is not None:
            kept.contents = dict(contents)
        return changed

    async def remove_schedule(self, tenant_id: str, schedule_id: str) -> None:
        self._schedule(tenant_id, schedule_id)
        del self._schedules[tenant_id, schedule_id]

    async def due_schedules(
        self, pools: Sequence[str], before: Timestamp, *, after: DueAfter | None = None, limit: int = 100
    ) -> list[Schedule]:
        due = [
            (due_at, *key)
            for key, kept in self._schedules.items()
            if (due_at := kept.schedule.due_at) is not None
            and due_at <= before
            and kept.schedule.definition.pool in pools
        ]
        passed = (after.due_at, after.tenant_id, after.schedule_id) if after is not None else None
        chosen = sorted(one for one in due if passed is None or one > passed)[:limit]
        return [self._schedules[tenant, schedule].schedule for _, tenant, schedule in chosen]

    async def list_ticks(
        self, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
    ) -> list[Tick]:
        ticks = self._schedule(tenant_id, schedule_id).ticks
        end = len(ticks) if before is None else bisect_left(ticks, before, key=lambda tick: tick.number)
        return ticks[max(0, end - limit) : end][::-1]

    def _schedule(self, tenant_id: str, schedule_id: str) -> _Kept:
        kept = self._schedules.get((tenant_id, schedule_id))
        if kept is None:
            raise ScheduleNotFound(schedule_id)
        return kept
