"""What the server answers about schedules."""

from typing import Any

import msgspec


class PlanOfSchedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    version: str
    sha256: str


class Pause(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    reason: str
    at: str
    by: str


class Schedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`times`: a cron expression, an interval or a moment (`kind`); `describes`: the same in words."""

    id: str
    state: str
    times: dict[str, Any]
    describes: str
    plan: PlanOfSchedule
    inputs: dict[str, Any]
    pool: str
    overlap: str
    jitter: int
    catch_up: int
    start: str | None
    end: str | None
    pause: Pause | None
    next_starts: tuple[str, ...]
    next_times: tuple[str, ...]
    open_runs: tuple[str, ...]
    created_at: str
    created_by: str
    revision: int


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """By id. `cursor`: of the next page; None if this was the last one."""

    schedules: tuple[Schedule, ...]
    cursor: str | None


class Tick(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one time of a schedule."""

    number: int
    time: str
    kind: str
    outcome: str
    at: str
    run_id: str | None = None
    code: str = ""
    message: str = ""
    count: int = 1
    until: str | None = None


class ScheduleDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schedule and what became of its last times, the newest first."""

    schedule: Schedule
    ticks: tuple[Tick, ...]


class Triggered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str
