"""Logs and artifacts of a run."""

from typing import Annotated, Final, Literal
from urllib.parse import quote

from litestar import Response, get
from litestar.params import FromPath, PathParameter, QueryParameter
from litestar.response import Stream

from podium.log.ids import check_id, check_step_id
from podium.operations.log_views import list_logs, log_name, read_log, search_logs
from podium.operations.run_files import list_artifacts, open_artifact
from podium.server.answering import FOREVER, answer, content
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.layers import SLASH
from podium.server.run_routes import AnyRequest
from podium.server.view_bodies import (
    ArtifactBody,
    ArtifactsBody,
    LogBody,
    LogsBody,
    MatchBody,
    MatchesBody,
)
from podium.server.view_routes import UNKNOWN

_MAX_TEXT: Final = 200
StreamName = Literal["out", "err", "progress", "answer"]


@get(
    "/runs/{run_id:str}/logs",
    opt=declares("run.view", "list", *UNKNOWN, "INVALID_INPUT", "PLAN_MISSING"),
    summary="Which logs a run has.",
)
async def get_logs(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    step: Annotated[str | None, QueryParameter(description="Only of the step with this path.")] = None,
) -> Response[LogsBody]:
    check_id("run_id", run_id)
    if step is not None:
        check_step_id(step)
    logs = await list_logs(asking.parts, asking.tenant_id, run_id, step)
    return answer(request, LogsBody(logs=tuple(map(LogBody.of, logs))))


@get(
    "/runs/{run_id:str}/logs/search",
    opt=declares("run.view", "heavy", *UNKNOWN),
    summary="Lines of the logs of a run that contain a text.",
)
async def search(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    text: Annotated[str, QueryParameter(min_length=1, max_length=_MAX_TEXT)],
) -> Response[MatchesBody]:
    check_id("run_id", run_id)
    found, is_cut = await search_logs(asking.parts, asking.tenant_id, run_id, text)
    return answer(request, MatchesBody(matches=tuple(map(MatchBody.of, found)), is_cut=is_cut))


@get(
    "/runs/{run_id:str}/logs/{step:str}/{attempt:int}/{stream:str}",
    media_type="text/plain",
    opt=declares("run.view", "read", *UNKNOWN, "LOG_NOT_FOUND"),
    summary="What an attempt of a step wrote, up to 1 MiB from a byte on.",
)
async def get_log(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    step: Annotated[str, PathParameter(description="Its path; write a slash in it as %2F.")],
    attempt: FromPath[int],
    stream: FromPath[StreamName],
    after: Annotated[int, QueryParameter(ge=0, le=2**63 - 1, description="Start at this byte.")] = 0,
) -> Response[str]:
    check_id("run_id", run_id)
    path = step.replace(SLASH, "/")
    check_step_id(path)
    found = await read_log(
        asking.parts, asking.tenant_id, run_id, log_name(path, attempt, stream), after=after
    )
    headers = {"X-Log-Size": str(found.size), "X-Content-Type-Options": "nosniff"}
    return content(request, found.content, "text/plain", headers=headers)


@get(
    "/runs/{run_id:str}/artifacts",
    opt=declares("run.view", "list", *UNKNOWN),
    summary="The files that steps have left.",
)
async def get_artifacts(
    asking: Asking, request: AnyRequest, run_id: FromPath[str]
) -> Response[ArtifactsBody]:
    check_id("run_id", run_id)
    found = await list_artifacts(asking.parts, asking.tenant_id, run_id)
    return answer(request, ArtifactsBody(artifacts=tuple(map(ArtifactBody.of, found))))


@get(
    "/runs/{run_id:str}/artifacts/{name:str}",
    media_type="application/octet-stream",
    opt=declares("run.view", "heavy", *UNKNOWN, "ARTIFACT_NOT_FOUND", "ARTIFACT_STORE_UNAVAILABLE"),
    summary="A file that a step has left; write a slash in its name as %2F.",
)
async def get_artifact(asking: Asking, run_id: FromPath[str], name: FromPath[str]) -> Stream:
    check_id("run_id", run_id)
    found, pieces = await open_artifact(asking.parts, asking.tenant_id, run_id, name.replace(SLASH, "/"))
    last = found.name.rpartition("/")[2]
    headers = {
        # The content was written by a step, so it must never be shown as one of our pages.
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(last, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": FOREVER if found.ref.sha256 is not None else "private, no-cache",
        **({"ETag": f'"{found.ref.sha256}"'} if found.ref.sha256 is not None else {}),
    }
    return Stream(pieces, media_type="application/octet-stream", headers=headers)


ROUTES: Final = [get_logs, search, get_log, get_artifacts, get_artifact]
