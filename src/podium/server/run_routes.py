"""Start runs, list them, look at one, and send signals to it."""

from typing import Annotated, Any, Final, TypeAlias

from litestar import Request, Response, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter
from msgspec.structs import replace

from podium.log.ids import check_id, check_uuid4
from podium.log.runs import RunQuery
from podium.log.tracing import TRACEPARENT
from podium.log.transitions import RunStatus
from podium.operations.listing import table_of_runs
from podium.operations.printed import event_line, runs_lines
from podium.operations.run_json import listed_json
from podium.operations.run_orders import order_run
from podium.operations.runs import read_events
from podium.operations.signals import request_signal
from podium.operations.submitting import Outcome, Submitted
from podium.ports.engine import SignalRequest
from podium.server.answering import answer, wants_text
from podium.server.asking import RUN, Asking
from podium.server.declaring import declares
from podium.server.run_bodies import (
    DecisionBody,
    EventBody,
    EventsBody,
    OrderBody,
    RunsBody,
    SignalBody,
    SubmittedBody,
)

MAX_LIMIT: Final = 500
Limit = Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT, description="How many at most.")]
AnyRequest = Request[Any, Any, Any]
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    HeaderParameter(name=IDEMPOTENCY_KEY, description="Two requests with the same one are one run."),
]
STATUS_OF: Final = {
    Outcome.CREATED: 201,
    Outcome.DUPLICATE: 200,
    Outcome.QUEUED: 202,
    Outcome.DELAYED: 202,
}


@post(
    "/runs",
    status_code=201,
    opt=declares(
        "run.start",
        "write",
        "PLAN_NOT_PUBLISHED",
        "INVALID_PLAN_REF",
        "INVALID_INPUT",
        "INVALID_ID",
        "RUN_REQUEST_CONFLICT",
        "NOT_FOR_POOL",
        "NOT_READY",
        "RUN_REFUSED",
        "CONCURRENCY_LIMIT",
        "INVALID_SUBMISSION",
        also=(200, 202),
    ),
    summary="Start a run of a published plan.",
)
async def start_run(
    asking: Asking,
    request: AnyRequest,
    data: JSONBody[OrderBody],
    idempotency_key: IdempotencyKey = None,
) -> Response[SubmittedBody]:
    if idempotency_key is not None:
        check_id(IDEMPOTENCY_KEY, idempotency_key)
    order = replace(data.order(idempotency_key), traceparent=request.headers.get(TRACEPARENT))
    return submitted(request, await order_run(asking.parts, asking.tenant_id, order))


def submitted(request: AnyRequest, done: Submitted) -> Response[SubmittedBody]:
    body = SubmittedBody.of(done)
    request.scope["state"][RUN] = body.run_id
    place = {"Location": f"/api/v1/runs/{body.run_id}"}
    return answer(request, body, status=STATUS_OF[done.outcome], headers=place)


@get(
    "/runs",
    opt=declares("run.view", "list", "INVALID_ID", "INVALID_FILTER", text=True),
    summary="List runs, newest first.",
)
async def list_runs(
    asking: Asking,
    request: AnyRequest,
    wanted: Annotated[
        str, QueryParameter(name="filter", description="As for `podium runs list --filter`.")
    ] = "",
    status: Annotated[
        list[RunStatus] | None, QueryParameter(description="Only these; may be repeated.")
    ] = None,
    plan: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    prefix: Annotated[str | None, QueryParameter(description="Only runs whose ids start so.")] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, QueryParameter(description="Of the page before.")] = None,
    details: Annotated[
        bool, QueryParameter(description="With `details`, as `podium runs list --json` prints them.")
    ] = False,
) -> Response[RunsBody]:
    if prefix is not None:
        check_id("prefix", prefix)
    query = RunQuery(
        statuses=frozenset(status or ()),
        plan_id=plan,
        project_id=project,
        id_prefix=prefix,
        limit=limit,
        cursor=cursor,
    )
    with_obstacles = details or wants_text(request)
    table = await table_of_runs(asking.parts, asking.tenant_id, wanted, query, with_obstacles=with_obstacles)
    body = RunsBody.of(table, tuple(map(listed_json, table.obstacles)) if details else None)
    return answer(request, body, text=lambda: runs_lines(table.obstacles, table.cursor))


@get(
    "/runs/{run_id:str}/events",
    opt=declares("run.view", "list", "RUN_NOT_FOUND", "INVALID_ID", text=True),
    summary="The log of a run.",
)
async def get_events(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    after: Annotated[int, QueryParameter(ge=0, le=2**63 - 1, description="Start behind this `runSeq`.")] = 0,
    limit: Limit = 100,
) -> Response[EventsBody]:
    check_id("run_id", run_id)
    records = await read_events(asking.parts.store, asking.tenant_id, run_id, after=after, limit=limit)
    seen = records[-1].run_seq if records else after
    following = seen if len(records) == limit else None
    body = EventsBody(events=tuple(map(EventBody.of, records)), run_seq=seen, next=following)
    return answer(request, body, text=lambda: list(map(event_line, records)))


@post(
    "/runs/{run_id:str}/signals",
    status_code=200,
    opt=declares(
        "signal",
        "write",
        "RUN_NOT_FOUND",
        "INVALID_ID",
        "SIGNAL_INVALID_PAYLOAD",
        "SIGNAL_DUPLICATE",
        "SIGNAL_IGNORED",
        "SIGNAL_RATE_LIMITED",
        "RUN_TERMINAL",
        "AUTHZ_REASON_REQUIRED",
    ),
    summary="Send a signal to a run.",
)
async def send_signal(
    asking: Asking, request: AnyRequest, run_id: FromPath[str], data: JSONBody[SignalBody]
) -> Response[DecisionBody]:
    check_id("run_id", run_id)
    check_uuid4("signal_id", data.signal_id)
    signal = SignalRequest(signal_id=data.signal_id, signal_type=data.signal_type, payload=data.payload)
    sent = await request_signal(asking.parts, asking.tenant_id, run_id, signal, data.fields)
    return answer(request, DecisionBody.of(sent, data.signal_type))


ROUTES: Final = [start_run, list_runs, get_events, send_signal]
