"""Schedules in the store. The statements are in `schedule_sql.py`, imported with the first schedule."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from podium.log.times import Timestamp
from podium.stores.sqlite.store_base import SqliteBase

if TYPE_CHECKING:
    from podium.ports.schedule_changes import ChangedSchedule, DueAfter, PreparedRun
    from podium.schedules.schedule import Schedule, Tick


class SqliteSchedules(SqliteBase):
    async def add_schedule(self, schedule: "Schedule", contents: Mapping[str, bytes]) -> None:
        from podium.stores.sqlite import schedule_sql

        await self._writer.write(schedule_sql.add(schedule, contents))

    async def find_schedule(self, tenant_id: str, schedule_id: str) -> "Schedule":
        from podium.stores.sqlite import schedule_sql

        return self.query(lambda db: schedule_sql.find(db, tenant_id, schedule_id))

    async def list_schedules(self, tenant_id: str, *, after: str = "", limit: int = 100) -> "list[Schedule]":
        from podium.stores.sqlite import schedule_sql

        return self.query(lambda db: schedule_sql.of_tenant(db, tenant_id, after, limit))

    async def schedule_contents(self, tenant_id: str, schedule_id: str) -> dict[str, bytes]:
        from podium.stores.sqlite import schedule_sql

        return self.query(lambda db: schedule_sql.contents(db, tenant_id, schedule_id))

    async def change_schedule(
        self,
        schedule: "Schedule",
        *,
        ticks: "Sequence[Tick]" = (),
        run: "PreparedRun | None" = None,
        contents: Mapping[str, bytes] | None = None,
    ) -> "ChangedSchedule | None":
        from podium.stores.sqlite import schedule_sql

        change = schedule_sql.change(schedule, ticks, run, contents)
        touches = run.new.identity.run_id if run is not None else None
        return await self._writer.write(lambda db: change(db, self._writer.moment), touches=touches)

    async def remove_schedule(self, tenant_id: str, schedule_id: str) -> None:
        from podium.stores.sqlite import schedule_sql

        await self._writer.write(lambda db: schedule_sql.remove(db, tenant_id, schedule_id))

    async def due_schedules(
        self, pools: Sequence[str], before: Timestamp, *, after: "DueAfter | None" = None, limit: int = 100
    ) -> "list[Schedule]":
        from podium.stores.sqlite import schedule_sql

        return self.query(lambda db: schedule_sql.due(db, pools, before, after, limit))

    async def list_ticks(
        self, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
    ) -> "list[Tick]":
        from podium.stores.sqlite import schedule_sql

        return self.query(lambda db: schedule_sql.ticks_of(db, tenant_id, schedule_id, before, limit))
