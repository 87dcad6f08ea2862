"""Adds a schedule, or replaces its definition."""

from collections.abc import Mapping

import msgspec

from podium.log.times import Timestamp, timestamp
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.schedules.changing import change_step
from podium.plan.plan import Plan
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.schedules.calendar import times_after
from podium.schedules.checking import check_definition, check_has_times, check_schedule_id
from podium.schedules.deciding import Step, replaced_step
from podium.schedules.inputs import inputs_at
from podium.schedules.schedule import Cron, Definition, Pause, Schedule


class ScheduleRequest(msgspec.Struct, frozen=True):
    """`contents`: what its runs are created with, by name, including the plan."""

    tenant_id: str
    schedule_id: str
    definition: Definition
    plan: Plan
    contents: Mapping[str, bytes]
    pause_reason: str | None = None


async def add_schedule(parts: Parts, request: ScheduleRequest) -> Schedule:
    """Raises `InvalidSchedule`, `InvalidInput`, `ScheduleExists`, and what `Parts.require` raises."""
    await parts.require("schedule.change", request.tenant_id)
    await parts.require_project("schedule.change", request.tenant_id, request.definition.project_id)
    now = timestamp(parts.clock.now())
    first = check_request(request, now)
    actor = parts.access().actor.name
    schedule = Schedule(
        tenant_id=request.tenant_id,
        schedule_id=request.schedule_id,
        definition=request.definition,
        created_at=now,
        created_by=actor,
        next_time=first,
        pause=Pause(request.pause_reason, now, actor) if request.pause_reason is not None else None,
    )
    await parts.store.add_schedule(schedule, request.contents)
    return schedule


async def replace_schedule(parts: Parts, request: ScheduleRequest) -> Schedule:
    """Replace the definition; the records of its times are kept, and times that were due are recorded as
    skipped. Also raises `ScheduleNotFound`.
    """
    await parts.require("schedule.change", request.tenant_id)
    await parts.require_project("schedule.change", request.tenant_id, request.definition.project_id)
    now = timestamp(parts.clock.now())
    first = check_request(request, now)

    def replaced(schedule: Schedule) -> Step:
        return replaced_step(schedule, request.definition, first, now)

    return await change_step(
        parts, request.tenant_id, request.schedule_id, replaced, contents=request.contents
    )


def check_request(request: ScheduleRequest, now: Timestamp) -> Timestamp:
    """Returns the first time. Inputs are checked as for a run at that time."""
    check_schedule_id(request.schedule_id)
    definition = request.definition
    if isinstance(definition.times, Cron) and not has_extra("schedules"):
        raise ExtraMissing(f"a cron expression: {install_hint('schedules')}")
    check_definition(definition)
    first = check_has_times(definition, now)
    check_inputs(inputs_at(definition, request.schedule_id, first), request.plan.workflow)
    return first


def preview(definition: Definition, after: Timestamp, count: int) -> list[Timestamp]:
    """The next times, without jitter."""
    from itertools import islice

    return list(islice(times_after(definition, after), count))
