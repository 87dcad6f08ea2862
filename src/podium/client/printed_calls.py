"""Requests of the command line with `--server`: their answers contain everything that it prints, as plain
JSON.
"""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Literal

from podium.client.call import Call, given

Json = dict[str, Any]
ReportFormat = Literal["json", "md", "html"]
_SCHEDULE = "/schedules/{schedule_id}"


def _get(path: str, names: Mapping[str, str] | None = None, **query: Any) -> Call[Json]:
    return Call(
        method="GET",
        path=path,
        answer=Json,
        names=names or {},
        query=given(**query),
        is_repeatable=True,
    )


def run_list(
    wanted: str | None,
    *,
    status: Sequence[str] | None = None,
    plan: str | None = None,
    project: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Json]:
    query = given(filter=wanted, status=status, plan=plan, project=project, limit=limit, cursor=cursor)
    return _get("/runs", **query, details=True)


def run_ids(*, prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> Call[Json]:
    """Ids of the newest runs with this prefix."""
    return _get("/runs", prefix=prefix, limit=limit, cursor=cursor)


def run_details(run_id: str, *, after: str | None = None, limit: int | None = None) -> Call[Json]:
    return _get("/runs/{run_id}", {"run_id": run_id}, details=True, after=after, limit=limit)


def why(run_id: str) -> Call[Json]:
    return _get("/runs/{run_id}/why", {"run_id": run_id})


def report_as(run_id: str, format: ReportFormat) -> Call[bytes]:  # noqa: A002  the name in the URL
    return Call(
        method="GET",
        path="/runs/{run_id}/report",
        answer=bytes,
        names={"run_id": run_id},
        query={"format": format},
        is_repeatable=True,
    )


def schedule_list(*, limit: int | None = None, cursor: str | None = None) -> Call[Json]:
    return _get("/schedules", limit=limit, cursor=cursor)


def schedule_details(schedule_id: str, *, limit: int | None = None, times: int | None = None) -> Call[Json]:
    return _get(_SCHEDULE, {"schedule_id": schedule_id}, limit=limit, times=times)


def put_schedule(schedule_id: str, definition: Json, *, replaces: bool) -> Call[Json]:
    if replaces:
        names = {"schedule_id": schedule_id}
        return Call(method="PUT", path=_SCHEDULE, answer=Json, names=names, body=definition)
    return Call(method="POST", path="/schedules", answer=Json, body={"id": schedule_id, **definition})


def change_schedule(
    schedule_id: str, verb: Literal["pause", "resume", "trigger", "backfill"], body: Json | None = None
) -> Call[Json]:
    names = {"schedule_id": schedule_id}
    return Call(method="POST", path=f"{_SCHEDULE}/{verb}", answer=Json, names=names, body=body)


def remove_schedule(schedule_id: str) -> Call[None]:
    return Call(method="DELETE", path=_SCHEDULE, answer=NoneType, names={"schedule_id": schedule_id})


def audit(
    *,
    run: str | None = None,
    actor: str | None = None,
    outcome: str | None = None,
    since: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Json]:
    return _get("/audit", run=run, actor=actor, outcome=outcome, since=since, limit=limit, cursor=cursor)


def audit_verification() -> Call[Json]:
    return _get("/audit/verify")
