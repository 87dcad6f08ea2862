"""Resume, repeat, export and remove runs."""

from collections.abc import AsyncIterator
from typing import Final

from litestar import Response, delete, get, post
from litestar.params import FromPath
from litestar.response import Stream

from podium.log.ids import check_id
from podium.operations.continuing import continue_run
from podium.operations.pruning import prune_run
from podium.operations.run_orders import order_rerun
from podium.operations.transfer import export_with_files
from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.run_bodies import RunBody, SubmittedBody
from podium.server.run_routes import IDEMPOTENCY_KEY, AnyRequest, IdempotencyKey, submitted
from podium.server.view_routes import UNKNOWN


@post(
    "/runs/{run_id:str}/resume",
    status_code=200,
    opt=declares(
        "run.resume", "write", *UNKNOWN, "RUN_COMPLETED", "OTHER_ENGINE", "RUN_LOCKED", "RUN_NOT_APPROVED"
    ),
    summary="Let a paused run continue, or reopen one that failed or was cancelled.",
)
async def resume(asking: Asking, request: AnyRequest, run_id: FromPath[str]) -> Response[RunBody]:
    check_id("run_id", run_id)
    return answer(request, RunBody.of(await continue_run(asking.parts, asking.tenant_id, run_id)))


@post(
    "/runs/{run_id:str}/rerun",
    status_code=201,
    opt=declares(
        "run.rerun",
        "write",
        *UNKNOWN,
        "RUN_REQUEST_CONFLICT",
        "NOT_FOR_POOL",
        "NOT_READY",
        "ENV_FILE_REQUIRED",
        "RUN_REFUSED",
        "CONCURRENCY_LIMIT",
        "SIGNAL_IGNORED",
        also=(200, 202),
    ),
    summary="Start a new run of the same plan and inputs.",
)
async def rerun(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    idempotency_key: IdempotencyKey = None,
) -> Response[SubmittedBody]:
    check_id("run_id", run_id)
    if idempotency_key is not None:
        check_id(IDEMPOTENCY_KEY, idempotency_key)
    return submitted(request, await order_rerun(asking.parts, asking.tenant_id, run_id, idempotency_key))


@get(
    "/runs/{run_id:str}/export",
    media_type="application/jsonl",
    opt=declares("run.view", "heavy", *UNKNOWN),
    summary="A run as JSON lines, for `podium import`.",
)
async def export(asking: Asking, run_id: FromPath[str]) -> Stream:
    check_id("run_id", run_id)
    lines = export_with_files(asking.parts, asking.tenant_id, run_id)
    # The first line is computed before the answer starts, so that a run that is not found is an error.
    first = await anext(lines)
    headers = {
        "Cache-Control": "private, no-cache",
        "Content-Disposition": 'attachment; filename="run.jsonl"',
    }
    return Stream(_chained(first, lines), media_type="application/jsonl", headers=headers)


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in rest:
        yield line


@delete(
    "/runs/{run_id:str}",
    status_code=204,
    opt=declares("run.prune", "write", *UNKNOWN, "RUN_NOT_PRUNABLE"),
    summary="Remove a run that has ended, with its logs and artifacts.",
)
async def remove(asking: Asking, run_id: FromPath[str]) -> None:
    check_id("run_id", run_id)
    await prune_run(asking.parts, asking.tenant_id, run_id)


ROUTES: Final = [resume, rerun, export, remove]
