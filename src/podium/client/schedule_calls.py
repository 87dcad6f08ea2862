"""Requests about schedules."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal

from podium.client.call import Call, given
from podium.client.schedule_answers import Schedule, ScheduleDetail, SchedulePage, Triggered

_ONE = "/schedules/{schedule_id}"
Overlap = Literal["skip", "queue", "buffer_one", "cancel_other", "allow"]


def schedules(limit: int | None = None, cursor: str | None = None) -> Call[SchedulePage]:
    query = given(limit=limit, cursor=cursor)
    return Call(method="GET", path="/schedules", answer=SchedulePage, query=query, is_repeatable=True)


def schedule(schedule_id: str, *, limit: int | None = None) -> Call[ScheduleDetail]:
    return Call(
        method="GET",
        path=_ONE,
        answer=ScheduleDetail,
        names={"schedule_id": schedule_id},
        query=given(limit=limit),
        is_repeatable=True,
    )


def add_schedule(
    schedule_id: str,
    plan: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    cron: str | None = None,
    timezone: str | None = None,
    every: int | None = None,
    at: str | None = None,
    overlap: Overlap | None = None,
    pool: str | None = None,
    jitter: int | None = None,
    catch_up: int | None = None,
) -> Call[Schedule]:
    """One of `cron`, `every` (seconds) and `at` says when."""
    body = given(
        id=schedule_id,
        plan=plan,
        inputs=inputs,
        cron=cron,
        timezone=timezone,
        every=every,
        at=at,
        overlap=overlap,
        pool=pool,
        jitter=jitter,
        catchUp=catch_up,
    )
    return Call(method="POST", path="/schedules", answer=Schedule, body=body)


def pause_schedule(schedule_id: str, reason: str) -> Call[Schedule]:
    names, body = {"schedule_id": schedule_id}, {"reason": reason}
    return Call(method="POST", path=f"{_ONE}/pause", answer=Schedule, names=names, body=body)


def resume_schedule(schedule_id: str) -> Call[Schedule]:
    names = {"schedule_id": schedule_id}
    return Call(method="POST", path=f"{_ONE}/resume", answer=Schedule, names=names)


def trigger_schedule(schedule_id: str) -> Call[Triggered]:
    """Not repeated: each request starts a run."""
    names = {"schedule_id": schedule_id}
    return Call(method="POST", path=f"{_ONE}/trigger", answer=Triggered, names=names)


def remove_schedule(schedule_id: str) -> Call[None]:
    return Call(method="DELETE", path=_ONE, answer=NoneType, names={"schedule_id": schedule_id})
