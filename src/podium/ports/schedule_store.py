"""Schedules in a store. A schedule, the records of its ticks, and the run of a tick change together.

`change_schedule` is the only way to change a schedule. It names the revision that the change was based on,
and of several callers with the same revision only one succeeds. So each time of a schedule is handled once,
however many processes check it, and whenever one of them dies.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from podium.log.times import Timestamp

if TYPE_CHECKING:
    # Imported with the first schedule.
    from podium.ports.schedule_changes import ChangedSchedule, DueAfter, PreparedRun
    from podium.schedules.schedule import Schedule, Tick


class Schedules(Protocol):
    async def add_schedule(self, schedule: "Schedule", contents: Mapping[str, bytes]) -> None:
        """Add it with the contents that its runs need: their plan, by name. Raises `ScheduleExists`."""
        ...

    async def find_schedule(self, tenant_id: str, schedule_id: str) -> "Schedule":
        """Raises `ScheduleNotFound`."""
        ...

    async def list_schedules(self, tenant_id: str, *, after: str = "", limit: int = 100) -> "list[Schedule]":
        """The schedules of a tenant, by id, starting after `after`."""
        ...

    async def schedule_contents(self, tenant_id: str, schedule_id: str) -> dict[str, bytes]:
        """Raises `ScheduleNotFound`."""
        ...

    async def change_schedule(
        self,
        schedule: "Schedule",
        *,
        ticks: "Sequence[Tick]" = (),
        run: "PreparedRun | None" = None,
        contents: Mapping[str, bytes] | None = None,
    ) -> "ChangedSchedule | None":
        """Store the schedule with the next revision, its ticks and a run: all or nothing.

        None if `schedule.revision` is not the current one, or the schedule was removed. Raises what
        `create_run` raises, without any change. `contents`: replaces the existing contents. The last tick
        gets the id of the run.
        """
        ...

    async def remove_schedule(self, tenant_id: str, schedule_id: str) -> None:
        """Also removes its ticks; runs are kept. Raises `ScheduleNotFound`."""
        ...

    async def due_schedules(
        self, pools: Sequence[str], before: Timestamp, *, after: "DueAfter | None" = None, limit: int = 100
    ) -> "list[Schedule]":
        """The schedules of all tenants that start runs in these pools and are due by then, the earliest
        first.
        """
        ...

    async def list_ticks(
        self, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
    ) -> "list[Tick]":
        """The records of its times, newest first; with a lower number than `before`.

        Raises `ScheduleNotFound`.
        """
        ...
