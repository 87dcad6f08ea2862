"""Look into one run."""

from typing import Annotated, Any, Final, Literal

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from podium.log.ids import check_id, check_step_id
from podium.operations.explaining import explain
from podium.operations.reports import as_html, as_json, as_markdown, report_run
from podium.operations.run_views import compare_runs, run_inputs, run_picture, run_spans
from podium.operations.runs import show_run
from podium.operations.why import why_json
from podium.server.answering import answer, content
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.layers import SLASH
from podium.server.run_bodies import RunBody
from podium.server.run_routes import AnyRequest, Limit
from podium.server.view_bodies import (
    BoxesBody,
    ComparisonBody,
    InputsBody,
    RunDetailBody,
    SpanBody,
    SpansBody,
    StepBody,
    StepsBody,
)

UNKNOWN: Final = ("RUN_NOT_FOUND", "INVALID_ID")
# A page with markup of ours, and texts of steps as text: whatever they hold, nothing is loaded or run.
_NO_SCRIPTS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
AfterStep = Annotated[str, QueryParameter(name="after", description="Start behind the step with this path.")]


@get(
    "/runs/{run_id:str}",
    opt=declares("run.view", "read", *UNKNOWN),
    summary="A run and where it is.",
)
async def get_run(asking: Asking, request: AnyRequest, run_id: FromPath[str]) -> Response[RunDetailBody]:
    check_id("run_id", run_id)
    parts = asking.parts
    view = await show_run(parts.store, parts.clock, asking.tenant_id, run_id, limit=1)
    body = RunDetailBody(run=RunBody.of(view.run), summary=view.summary.as_json(), run_seq=view.run.head)
    return answer(request, body)


@get(
    "/runs/{run_id:str}/steps",
    opt=declares("run.view", "list", *UNKNOWN),
    summary="The steps of a run, by path.",
)
async def get_steps(
    asking: Asking, request: AnyRequest, run_id: FromPath[str], after_step: AfterStep = "", limit: Limit = 100
) -> Response[StepsBody]:
    check_id("run_id", run_id)
    parts, after = asking.parts, _step(after_step)
    view = await show_run(parts.store, parts.clock, asking.tenant_id, run_id, after_step=after, limit=limit)
    following = view.steps[-1].step_id if len(view.steps) == limit else None
    steps = tuple(map(StepBody.of, view.steps))
    return answer(request, StepsBody(steps=steps, run_seq=view.run.head, next=following))


@get(
    "/runs/{run_id:str}/boxes",
    opt=declares("run.view", "heavy", *UNKNOWN, "PLAN_MISSING"),
    summary="The picture of a run, with its progress.",
)
async def get_boxes(asking: Asking, request: AnyRequest, run_id: FromPath[str]) -> Response[BoxesBody]:
    check_id("run_id", run_id)
    return answer(request, BoxesBody.of(await run_picture(asking.parts, asking.tenant_id, run_id)))


@get(
    "/runs/{run_id:str}/spans",
    opt=declares("run.view", "list", *UNKNOWN),
    summary="The attempts of the steps of a run, in time.",
)
async def get_spans(
    asking: Asking, request: AnyRequest, run_id: FromPath[str], after_step: AfterStep = "", limit: Limit = 100
) -> Response[SpansBody]:
    check_id("run_id", run_id)
    parts = asking.parts
    found = await run_spans(parts, asking.tenant_id, run_id, after_step=_step(after_step), limit=limit)
    run = await parts.store.runs.find(asking.tenant_id, run_id)
    following = found[-1].step_id if len({one.step_id for one in found}) == limit else None
    spans = tuple(map(SpanBody.of, found))
    return answer(request, SpansBody(spans=spans, run_seq=run.head, next=following))


@get(
    "/runs/{run_id:str}/why",
    opt=declares("run.view", "heavy", *UNKNOWN, "PLAN_MISSING"),
    summary="What a run waits for, until when, and what one can do about it.",
)
async def get_why(asking: Asking, request: AnyRequest, run_id: FromPath[str]) -> Response[dict[str, Any]]:
    check_id("run_id", run_id)
    report = await report_run(asking.parts, asking.tenant_id, run_id, steps=1)
    explained = await explain(asking.parts, asking.tenant_id, run_id)
    return answer(request, {**why_json(explained, report), "runSeq": explained.run.head})


@get(
    "/runs/{run_id:str}/report",
    opt=declares("run.view", "heavy", *UNKNOWN, text=True),
    summary="How a run went, as JSON, Markdown or HTML.",
)
async def get_report(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    format: FromQuery[Literal["json", "md", "html"]] = "json",  # noqa: A002  the name in the URL
) -> Response[dict[str, Any]]:
    check_id("run_id", run_id)
    found = await report_run(asking.parts, asking.tenant_id, run_id)
    if format == "md":
        return content(request, as_markdown(found).encode(), "text/markdown")
    if format == "html":
        return content(request, as_html(found).encode(), "text/html", headers=_NO_SCRIPTS)
    return answer(request, as_json(found), text=lambda: as_markdown(found))


@get(
    "/runs/{run_id:str}/inputs",
    opt=declares("run.view", "read", *UNKNOWN),
    summary="What a run was given.",
)
async def get_inputs(asking: Asking, request: AnyRequest, run_id: FromPath[str]) -> Response[InputsBody]:
    check_id("run_id", run_id)
    return answer(request, InputsBody(inputs=await run_inputs(asking.parts, asking.tenant_id, run_id)))


@get(
    "/runs/{run_id:str}/compare/{other_id:str}",
    opt=declares("run.view", "heavy", *UNKNOWN),
    summary="How two runs differ: plan, inputs, and the ends of their steps.",
)
async def compare(
    asking: Asking, request: AnyRequest, run_id: FromPath[str], other_id: FromPath[str]
) -> Response[ComparisonBody]:
    check_id("run_id", run_id)
    check_id("run_id", other_id)
    return answer(
        request, ComparisonBody.of(await compare_runs(asking.parts, asking.tenant_id, run_id, other_id))
    )


def _step(path: str) -> str:
    """From a query or a part of a path. Raises `InvalidId`."""
    step = path.replace(SLASH, "/")
    if step:
        check_step_id(step)
    return step


ROUTES: Final = [
    get_run,
    get_steps,
    get_boxes,
    get_spans,
    get_why,
    get_report,
    get_inputs,
    compare,
]
