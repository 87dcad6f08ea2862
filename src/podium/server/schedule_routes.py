"""Schedules: define them, look at what became of their times, pause, trigger and backfill them."""

from typing import Annotated, Final

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter

from podium.log.ids import check_id
from podium.operations.printed_lists import page_lines, schedules_table, whole_schedule_lines
from podium.operations.schedules import changing, ordering, reading
from podium.operations.schedules.changing import BackfillRequest
from podium.operations.schedules.ordering import ScheduleOrder, moment_of
from podium.operations.schedules.views import ScheduleView, TickView, next_times, tick_view, view_of
from podium.server.answering import answer, wants_text
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.run_routes import AnyRequest, Limit

_UNKNOWN: Final = ("SCHEDULE_NOT_FOUND", "INVALID_ID")
_INVALID: Final = (
    "SCHEDULE_INVALID",
    "INVALID_ID",
    "INVALID_INPUT",
    "INVALID_PLAN_REF",
    "PLAN_NOT_PUBLISHED",
    "EXTRA_MISSING",
)


class NewScheduleBody(ScheduleOrder, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A schedule to add."""

    id: str


class SchedulesBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page, by id. `cursor`: of the next page, null if this was the last one."""

    schedules: tuple[ScheduleView, ...]
    cursor: str | None


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schedule and what became of its last times, the newest first."""

    schedule: ScheduleView
    ticks: tuple[TickView, ...]


class TimesBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    times: tuple[str, ...]


class PauseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    reason: str


class BackfillBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Times from `from` to before `to`. `preview`: only lists them. `stop`: instead, start no more runs."""

    first: str | None = msgspec.field(default=None, name="from")
    until: str | None = msgspec.field(default=None, name="to")
    concurrency: int = 1
    preview: bool = False
    stop: bool = False


class TriggeredBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str


@get(
    "/schedules", opt=declares("schedule.view", "list", "INVALID_ID", text=True), summary="Schedules, by id."
)
async def get_schedules(
    asking: Asking,
    request: AnyRequest,
    limit: Limit = 50,
    cursor: Annotated[str | None, QueryParameter(description="Of the page before.")] = None,
) -> Response[SchedulesBody]:
    if cursor is not None:
        check_id("cursor", cursor)
    found = await reading.list_schedules(asking.parts, asking.tenant_id, after=cursor or "", limit=limit + 1)
    page = found[:limit]
    following = page[-1].schedule_id if len(found) > limit else None
    body = SchedulesBody(schedules=tuple(map(view_of, page)), cursor=following)
    listed = [
        (view_of(one, 1), await reading.last_tick(asking.parts, one)) for one in page if wants_text(request)
    ]
    return answer(request, body, text=lambda: page_lines(schedules_table(listed), following))


@post(
    "/schedules",
    status_code=201,
    opt=declares("schedule.change", "write", *_INVALID, "SCHEDULE_EXISTS"),
    summary="Run a published plan at given times.",
)
async def add_schedule(
    asking: Asking, request: AnyRequest, data: JSONBody[NewScheduleBody]
) -> Response[ScheduleView]:
    added = await ordering.order_schedule(asking.parts, asking.tenant_id, data.id, data)
    headers = {"Location": f"/api/v1/schedules/{added.schedule_id}"}
    return answer(request, view_of(added), status=201, headers=headers)


@get(
    "/schedules/{schedule_id:str}",
    opt=declares("schedule.view", "read", *_UNKNOWN, text=True),
    summary="A schedule, its next times, and what became of the last ones.",
)
async def get_schedule(
    asking: Asking,
    request: AnyRequest,
    schedule_id: FromPath[str],
    limit: Limit = 50,
    times: Annotated[int, QueryParameter(ge=0, le=1000, description="How many next times.")] = 5,
) -> Response[ScheduleBody]:
    check_id("schedule", schedule_id)
    found = await reading.show_schedule(asking.parts, asking.tenant_id, schedule_id)
    ticks = await reading.list_ticks(asking.parts, asking.tenant_id, schedule_id, limit=limit)
    body = ScheduleBody(schedule=view_of(found, times), ticks=tuple(map(tick_view, ticks)))
    return answer(request, body, text=lambda: whole_schedule_lines(body.schedule, body.ticks))


@put(
    "/schedules/{schedule_id:str}",
    opt=declares("schedule.change", "write", *_INVALID, "SCHEDULE_NOT_FOUND", "SCHEDULE_CHANGED"),
    summary="Replace the definition of a schedule; what became of its times is kept.",
)
async def replace_schedule(
    asking: Asking, request: AnyRequest, schedule_id: FromPath[str], data: JSONBody[ScheduleOrder]
) -> Response[ScheduleView]:
    check_id("schedule", schedule_id)
    replaced = await ordering.order_schedule(asking.parts, asking.tenant_id, schedule_id, data, replaces=True)
    return answer(request, view_of(replaced))


@delete(
    "/schedules/{schedule_id:str}",
    status_code=204,
    opt=declares("schedule.change", "write", *_UNKNOWN),
    summary="Remove a schedule and the record of its times. Its runs stay.",
)
async def remove_schedule(asking: Asking, schedule_id: FromPath[str]) -> None:
    check_id("schedule", schedule_id)
    await changing.remove_schedule(asking.parts, asking.tenant_id, schedule_id)


@post(
    "/schedules/{schedule_id:str}/pause",
    status_code=200,
    opt=declares("schedule.operate", "write", *_UNKNOWN, "SCHEDULE_INVALID", "SCHEDULE_CHANGED"),
    summary="Start no more runs of a schedule until it is resumed.",
)
async def pause_schedule(
    asking: Asking, request: AnyRequest, schedule_id: FromPath[str], data: JSONBody[PauseBody]
) -> Response[ScheduleView]:
    check_id("schedule", schedule_id)
    paused = await changing.pause_schedule(asking.parts, asking.tenant_id, schedule_id, data.reason)
    return answer(request, view_of(paused))


@post(
    "/schedules/{schedule_id:str}/resume",
    status_code=200,
    opt=declares("schedule.operate", "write", *_UNKNOWN, "SCHEDULE_CHANGED"),
    summary="Let a paused schedule continue with its next time.",
)
async def resume_schedule(
    asking: Asking, request: AnyRequest, schedule_id: FromPath[str]
) -> Response[ScheduleView]:
    check_id("schedule", schedule_id)
    resumed = await changing.resume_schedule(asking.parts, asking.tenant_id, schedule_id)
    return answer(request, view_of(resumed))


@post(
    "/schedules/{schedule_id:str}/trigger",
    status_code=201,
    opt=declares(
        "schedule.operate",
        "write",
        *_UNKNOWN,
        "SCHEDULE_INVALID",
        "SCHEDULE_CHANGED",
        "INVALID_INPUT",
        "NOT_FOR_POOL",
        "NOT_READY",
    ),
    summary="Start a run of a schedule now.",
)
async def trigger_schedule(
    asking: Asking, request: AnyRequest, schedule_id: FromPath[str]
) -> Response[TriggeredBody]:
    check_id("schedule", schedule_id)
    run_id = await changing.trigger_schedule(asking.parts, asking.tenant_id, schedule_id)
    headers = {"Location": f"/api/v1/runs/{run_id}"}
    return answer(request, TriggeredBody(run_id=run_id), status=201, headers=headers)


@post(
    "/schedules/{schedule_id:str}/backfill",
    status_code=200,
    opt=declares(
        "schedule.change",
        "write",
        *_UNKNOWN,
        "SCHEDULE_INVALID",
        "SCHEDULE_CHANGED",
        "SCHEDULE_BACKFILL_ACTIVE",
    ),
    summary="Start runs for times of the past, or list these times.",
)
async def backfill_schedule(
    asking: Asking, request: AnyRequest, schedule_id: FromPath[str], data: JSONBody[BackfillBody]
) -> Response[TimesBody]:
    check_id("schedule", schedule_id)
    asked = (asking.parts, asking.tenant_id, schedule_id)
    if data.stop:
        await changing.stop_backfill(*asked)
        return answer(request, TimesBody(times=()))
    wanted = BackfillRequest(
        moment_of("from", data.first or ""), moment_of("to", data.until or ""), data.concurrency
    )
    times = await changing.preview_backfill(*asked, wanted)
    if not data.preview:
        await changing.backfill_schedule(*asked, wanted)
    return answer(request, TimesBody(times=tuple(times)))


@get(
    "/schedules/{schedule_id:str}/preview",
    opt=declares("schedule.view", "read", *_UNKNOWN),
    summary="The next times of a schedule.",
)
async def preview_schedule(
    asking: Asking, request: AnyRequest, schedule_id: FromPath[str], limit: Limit = 50
) -> Response[TimesBody]:
    check_id("schedule", schedule_id)
    found = await reading.show_schedule(asking.parts, asking.tenant_id, schedule_id)
    return answer(request, TimesBody(times=next_times(found, limit)))


ROUTES: Final = [
    get_schedules,
    add_schedule,
    get_schedule,
    replace_schedule,
    remove_schedule,
    pause_schedule,
    resume_schedule,
    trigger_schedule,
    backfill_schedule,
    preview_schedule,
]
