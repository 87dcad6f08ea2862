"""Schedules in a store. What changes together: a schedule, the records of its ticks, and the run of a tick.

`change_schedule` is the one way to change a schedule. It names the revision that the change was decided on, and of
several callers that decided on the same one, one succeeds. So however many processes look at a schedule, and whenever
one of them dies, each time of it is acted on once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from podium.log.times import Timestamp

if TYPE_CHECKING:
    # Loaded with the first schedule.
    from podium.ports.schedule_changes import ChangedSchedule, DueAfter, PreparedRun
    from podium.schedules.schedule import Schedule, Tick


class Schedules(Protocol):
    async def add_schedule(self, schedule: "Schedule", contents: Mapping[str, bytes]) -> None:
        """With what its runs need: their plan, by name. Raises `ScheduleExists`."""
        ...

    async def find_schedule(self, tenant_id: str, schedule_id: str) -> "Schedule":
        """Raises `ScheduleNotFound`."""
        ...

    async def list_schedules(self, tenant_id: str, *, after: str = "", limit: int = 100) -> "list[Schedule]":
        """Of a tenant, by id, from behind `after`."""
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
        """Store the schedule with the next revision, its ticks and a run: all, or nothing.

        None if `schedule.revision` is not the current one, or it was removed. Raises what `create_run` does; nothing
        has changed then. `contents`: instead of those that it has. The last tick gets the id of the run.
        """
        ...

    async def remove_schedule(self, tenant_id: str, schedule_id: str) -> None:
        """With its ticks; runs stay. Raises `ScheduleNotFound`."""
        ...

    async def due_schedules(
        self, pools: Sequence[str], before: Timestamp, *, after: "DueAfter | None" = None, limit: int = 100
    ) -> "list[Schedule]":
        """Of all tenants, those that start runs in these pools and are to be looked at by then, the first one first."""
        ...

    async def list_ticks(
        self, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
    ) -> "list[Tick]":
        """What became of its times, the newest record first; with a lower number than `before`.

        Raises `ScheduleNotFound`.
        """
        ...
