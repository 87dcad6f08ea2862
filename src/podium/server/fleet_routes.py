"""Waiting runs of pools, limits of runs in progress, and the workers that execute them."""

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter

from podium.log.ids import check_id
from podium.operations.fleet import WorkerView, drain_worker, list_workers
from podium.operations.limits import Limit, Queue, list_limits, remove_limit, set_limit, show_queue
from podium.operations.printed_lists import limits_table, page_lines, queue_table, workers_table
from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.paging import PageCursor, PageLimit, page_of
from podium.server.run_routes import MAX_LIMIT

AnyRequest = Request[Any, Any, Any]


class LimitBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """At most so many runs are in progress. `name`: of the project, plan or concurrency key; none of the tenant."""

    scope: str
    limit: int
    name: str | None = None

    @classmethod
    def of(cls, limit: Limit) -> "LimitBody":
        return cls(scope=limit.scope, name=limit.name, limit=limit.most)


class LimitsBody(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor`: of the next page, null if this was the last one."""

    limits: tuple[LimitBody, ...]
    cursor: str | None


class WorkersBody(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor`: of the next page, null if this was the last one."""

    workers: tuple[WorkerView, ...]
    cursor: str | None


class QueueBody(Queue, frozen=True, kw_only=True, rename="camel"):
    """`cursor`: of the next page of runs, null if this was the last one."""

    cursor: str | None


@get(
    "/queue",
    opt=declares("fleet.view", "list", "INVALID_ID", "RUN_NOT_FOUND", text=True),
    summary="What waits in pools.",
)
async def get_queue(
    asking: Asking,
    request: AnyRequest,
    pool: Annotated[str | None, QueryParameter(description="List the runs that wait there.")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT, description="How many at most.")] = 50,
    cursor: Annotated[str, QueryParameter(description="Of the page before.")] = "",
) -> Response[QueueBody]:
    for name, value in (("pool", pool), ("cursor", cursor)):
        if value:
            check_id(name, value)
    found = await show_queue(asking.parts, asking.tenant_id, pool, after=cursor, limit=limit)
    following = found.runs[-1].run_id if len(found.runs) == limit else None
    body = QueueBody(pools=found.pools, runs=found.runs, cursor=following)
    return answer(request, body, text=lambda: page_lines(queue_table(found, pool), following))


@get("/limits", opt=declares("fleet.view", "list", text=True), summary="Limits of runs in progress.")
async def get_limits(
    asking: Asking, request: AnyRequest, limit: PageLimit = MAX_LIMIT, cursor: PageCursor = None
) -> Response[LimitsBody]:
    found = await list_limits(asking.parts, asking.tenant_id)
    page, following = page_of(found, lambda one: f"{one.scope}/{one.name}", cursor, limit)
    body = LimitsBody(limits=tuple(map(LimitBody.of, page)), cursor=following)
    return answer(request, body, text=lambda: page_lines(limits_table(page), following))


@put("/limits", opt=declares("limit.set", "write", "INVALID_LIMIT", "INVALID_ID"), summary="Set a limit.")
async def put_limit(asking: Asking, request: AnyRequest, data: JSONBody[LimitBody]) -> Response[LimitBody]:
    limit = await set_limit(asking.parts, asking.tenant_id, data.scope, data.name, data.limit)
    return answer(request, LimitBody.of(limit))


@delete(
    "/limits",
    status_code=204,
    opt=declares("limit.set", "write", "INVALID_LIMIT", "INVALID_ID", "LIMIT_NOT_FOUND"),
    summary="Remove a limit.",
)
async def delete_limit(
    asking: Asking,
    kind: Annotated[str, QueryParameter(description="The scope: tenant, project, plan or concurrency.")],
    name: Annotated[str | None, QueryParameter(description="None for the scope tenant.")] = None,
) -> None:
    # Not named `scope`: the framework would pass the ASGI scope.
    await remove_limit(asking.parts, asking.tenant_id, kind, name)


@get("/workers", opt=declares("fleet.view", "list", text=True), summary="The workers that serve the tenant.")
async def get_workers(
    asking: Asking, request: AnyRequest, limit: PageLimit = MAX_LIMIT, cursor: PageCursor = None
) -> Response[WorkersBody]:
    found = await list_workers(asking.parts, asking.tenant_id)
    page, following = page_of(found, lambda one: one.id, cursor, limit)
    body = WorkersBody(workers=page, cursor=following)
    return answer(request, body, text=lambda: page_lines(workers_table(page), following))


@post(
    "/workers/{worker_id:str}/drain",
    status_code=202,
    opt=declares("worker.drain", "write", "WORKER_NOT_FOUND", "INVALID_ID"),
    summary="Stop a worker: it starts nothing more, and its running steps have time to end.",
)
async def post_drain(asking: Asking, request: AnyRequest, worker_id: FromPath[str]) -> Response[WorkerView]:
    check_id("worker_id", worker_id)
    worker = await drain_worker(asking.parts, asking.tenant_id, worker_id)
    return answer(request, worker, status=202)


ROUTES: Final[list[Any]] = [get_queue, get_limits, put_limit, delete_limit, get_workers, post_drain]
