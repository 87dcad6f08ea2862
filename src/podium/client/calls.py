"""Every request that the clients make, by the name of their method."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, Literal
from uuid import uuid4

from podium.client.answers import (
    Artifacts,
    Decision,
    EventPage,
    Inputs,
    LogFiles,
    Me,
    PlanPage,
    PublishedPlan,
    Report,
    Run,
    RunDetail,
    RunPage,
    StepPage,
    Submitted,
    Validation,
    Why,
)
from podium.client.call import Call, T, given
from podium.log.ids import check_id

OnLimit = Literal["queue", "reject", "delay"]
Stream = Literal["out", "err", "progress", "answer"]


def _get(path: str, answer: type[T], names: Mapping[str, str] | None = None, **query: Any) -> Call[T]:
    return Call(
        method="GET", path=path, answer=answer, names=names or {}, query=given(**query), is_repeatable=True
    )


def me() -> Call[Me]:
    return _get("/me", Me)


# --- plans --------------------------------------------------------------------------------------------


def validate(workflow: str) -> Call[Validation]:
    body = {"workflow": workflow}
    return Call(method="POST", path="/plans/validate", answer=Validation, body=body, is_repeatable=True)


def publish(workflow: str) -> Call[PublishedPlan]:
    """The same text again is the same plan."""
    body = {"workflow": workflow}
    return Call(method="POST", path="/plans", answer=PublishedPlan, body=body, is_repeatable=True)


def plans(limit: int | None = None, cursor: str | None = None) -> Call[PlanPage]:
    return _get("/plans", PlanPage, limit=limit, cursor=cursor)


def plan(plan_id: str) -> Call[PublishedPlan]:
    return _get("/plans/{plan_id}", PublishedPlan, {"plan_id": plan_id})


def approve_plan(plan_id: str, plan_sha256: str) -> Call[PublishedPlan]:
    body = {"planSha256": plan_sha256}
    path = "/plans/{plan_id}/approve"
    return Call(method="POST", path=path, answer=PublishedPlan, names={"plan_id": plan_id}, body=body)


# --- runs ---------------------------------------------------------------------------------------------


def start(
    plan: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    idempotency_key: str | None = None,
    on_limit: OnLimit | None = None,
    labels: Mapping[str, str] | None = None,
    project: str | None = None,
    environment: str | None = None,
    pool: str | None = None,
    priority: int | None = None,
    concurrency_key: str | None = None,
    start_at: datetime | None = None,
) -> Call[Submitted]:
    """With a key of its own, if none is given: a repeated request never starts a second run."""
    body = given(
        plan=plan,
        inputs=inputs,
        onLimit=on_limit,
        labels=labels,
        project=project,
        environment=environment,
        pool=pool,
        priority=priority,
        concurrencyKey=concurrency_key,
        startAt=start_at.isoformat() if start_at is not None else None,
    )
    return Call(
        method="POST",
        path="/runs",
        answer=Submitted,
        headers=_key(idempotency_key),
        body=body,
        is_repeatable=True,
    )


def runs(
    filter: str | None = None,  # noqa: A002  the name in the URL
    *,
    status: Sequence[str] | None = None,
    plan: str | None = None,
    project: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[RunPage]:
    query = given(filter=filter, status=status, plan=plan, project=project, limit=limit, cursor=cursor)
    return _get("/runs", RunPage, **query)


def run(run_id: str) -> Call[RunDetail]:
    return _get("/runs/{run_id}", RunDetail, {"run_id": run_id})


def inputs(run_id: str) -> Call[Inputs]:
    return _get("/runs/{run_id}/inputs", Inputs, {"run_id": run_id})


def steps(run_id: str, *, after: str | None = None, limit: int | None = None) -> Call[StepPage]:
    return _get("/runs/{run_id}/steps", StepPage, {"run_id": run_id}, after=after, limit=limit)


def events(run_id: str, after: int = 0, *, limit: int | None = None) -> Call[EventPage]:
    return _get("/runs/{run_id}/events", EventPage, {"run_id": run_id}, after=after, limit=limit)


def why(run_id: str) -> Call[Why]:
    return _get("/runs/{run_id}/why", Why, {"run_id": run_id})


def report(run_id: str) -> Call[Report]:
    return _get("/runs/{run_id}/report", Report, {"run_id": run_id})


def logs(run_id: str, *, step: str | None = None) -> Call[LogFiles]:
    return _get("/runs/{run_id}/logs", LogFiles, {"run_id": run_id}, step=step)


def log(
    run_id: str,
    step: str,
    attempt: int = 1,
    stream: Stream = "out",
    *,
    after: int = 0,
) -> Call[bytes]:
    names = {"run_id": run_id, "step": step, "attempt": str(attempt), "stream": stream}
    return _get("/runs/{run_id}/logs/{step}/{attempt}/{stream}", bytes, names, after=after)


def artifacts(run_id: str) -> Call[Artifacts]:
    return _get("/runs/{run_id}/artifacts", Artifacts, {"run_id": run_id})


def artifact(run_id: str, name: str) -> Call[bytes]:
    return _get("/runs/{run_id}/artifacts/{name}", bytes, {"run_id": run_id, "name": name})


def resume(run_id: str) -> Call[Run]:
    return Call(method="POST", path="/runs/{run_id}/resume", answer=Run, names={"run_id": run_id})


def rerun(run_id: str, *, idempotency_key: str | None = None) -> Call[Submitted]:
    return Call(
        method="POST",
        path="/runs/{run_id}/rerun",
        answer=Submitted,
        names={"run_id": run_id},
        headers=_key(idempotency_key),
        is_repeatable=True,
    )


def remove(run_id: str) -> Call[None]:
    """Not repeated: the second answer would be that the run does not exist."""
    return Call(method="DELETE", path="/runs/{run_id}", answer=NoneType, names={"run_id": run_id})


def signal(
    run_id: str,
    signal_type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    signal_id: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Call[Decision]:
    """With an id of its own, if none is given: a repeated request is the same signal."""
    body = given(signalId=signal_id or str(uuid4()), signalType=signal_type, payload=payload, fields=fields)
    path = "/runs/{run_id}/signals"
    return Call(
        method="POST",
        path=path,
        answer=Decision,
        names={"run_id": run_id},
        body=body,
        is_repeatable=True,
    )


def stream(run_id: str, after: int, last_event_id: str | None = None) -> Call[bytes]:
    """The events of one run behind `after`, as they come."""
    headers = {"Accept": "text/event-stream", **given(**{"Last-Event-ID": last_event_id})}
    return Call(
        method="GET",
        path="/stream",
        answer=bytes,
        query={"run": f"{run_id}@{after}"},
        headers=headers,
        is_repeatable=True,
    )


def _key(given_key: str | None) -> dict[str, str]:
    if given_key is not None:
        check_id("Idempotency-Key", given_key)
    return {"Idempotency-Key": given_key or str(uuid4())}
