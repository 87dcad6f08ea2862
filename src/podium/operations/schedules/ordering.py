"""A schedule of a published plan, as requested over the network."""

from typing import Any, Final

import msgspec

from podium.errors import InvalidSchedule
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.times import Timestamp, moment, parse_moment, timestamp
from podium.operations.parts import Parts
from podium.operations.schedules.defining import ScheduleRequest, add_schedule, replace_schedule
from podium.operations.schedules.plans import published_plan
from podium.schedules.schedule import Cron, Definition, Every, Once, Overlap, Schedule, Times
from podium.text import shortened

_EXAMPLES: Final = "2026-12-01, or 2026-12-01T09:00:00+01:00"


class ScheduleOrder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One of `cron`, `every` (seconds) and `at`. `plan`: `id@version`, or the SHA-256 of a published plan."""

    plan: str
    cron: str | None = None
    timezone: str = "UTC"
    every: int | None = None
    at: str | None = None
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    project: str = DEFAULT_PROJECT
    environment: str = DEFAULT_ENVIRONMENT
    pool: str = "default"
    overlap: Overlap = Overlap.SKIP
    jitter: int = 0
    catch_up: int = 3_600
    start: str | None = None
    end: str | None = None
    # If set, adds it paused, for this reason.
    paused: str | None = None


async def order_schedule(
    parts: Parts, tenant_id: str, schedule_id: str, order: ScheduleOrder, *, replaces: bool = False
) -> Schedule:
    """Raises `InvalidSchedule`, `PlanNotPublished`, and what adding or replacing a schedule raises."""
    await parts.require("schedule.change", tenant_id, records=False)
    kept = await published_plan(parts, tenant_id, order.plan)
    now = timestamp(parts.clock.now())
    definition = Definition(
        times=_times(order, now),
        plan_id=kept.plan.metadata.plan_id,
        plan_version=kept.plan.metadata.plan_version,
        plan_sha256=kept.sha256,
        inputs=order.inputs,
        pool=order.pool,
        workspace=str(parts.workspace.absolute()),
        project_id=order.project,
        environment_id=order.environment,
        overlap=order.overlap,
        jitter=order.jitter,
        catch_up=order.catch_up,
        start=_moment("start", order.start),
        end=_moment("end", order.end),
    )
    request = ScheduleRequest(tenant_id, schedule_id, definition, kept.plan, kept.contents, order.paused)
    return await (replace_schedule if replaces else add_schedule)(parts, request)


def _times(order: ScheduleOrder, now: Timestamp) -> Times:
    given = [order.cron is not None, order.every is not None, order.at is not None]
    if sum(given) != 1:
        raise InvalidSchedule("give one of cron, every and at")
    if order.cron is not None:
        return Cron(order.cron, order.timezone)
    if order.timezone != "UTC":
        raise InvalidSchedule("timezone is for cron", "timezone")
    if order.every is not None:
        anchor = _moment("start", order.start) or timestamp(moment(now).replace(microsecond=0))
        return Every(order.every, anchor)
    return Once(moment_of("at", order.at or ""))


def _moment(name: str, given: str | None) -> Timestamp | None:
    return moment_of(name, given) if given is not None else None


def moment_of(name: str, given: str) -> Timestamp:
    """Raises `InvalidSchedule`."""
    found = parse_moment(given)
    if found is None:
        raise InvalidSchedule(
            f"{name} {shortened(given)!r} is not a time: write {_EXAMPLES}", name, f"like {_EXAMPLES}"
        )
    return found
