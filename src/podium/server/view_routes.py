"""Routes for the details of one run."""

from typing import Annotated, Any, Final, Literal

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from podium.log.ids import check_id, check_step_id
from podium.operations.printed import whole_run_lines, why_lines
from podium.operations.reports import as_json, as_markdown, report_run
from podium.operations.run_json import full_view, shown_json
from podium.operations.run_views import compare_runs, run_inputs, run_picture, run_spans
from podium.operations.runs import show_run
from podium.operations.why import why_json, why_run
from podium.server.answering import answer, content, wants_text
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.layers import SLASH
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
# A page with our markup, and texts of steps as text: whatever they contain, nothing is loaded or run.
_NO_SCRIPTS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
AfterStep = Annotated[str, QueryParameter(name="after", description="Start behind the step with this path.")]


@get(
    "/runs/{run_id:str}",
    opt=declares("run.view", "read", *UNKNOWN, text=True),
    summary="A run and where it is.",
)
async def get_run(
    asking: Asking,
    request: AnyRequest,
    run_id: FromPath[str],
    details: Annotated[
        bool, QueryParameter(description="With `details`, as `podium runs show --json` prints them.")
    ] = False,
    after_step: AfterStep = "",
    limit: Limit = 100,
) -> Response[RunDetailBody]:
    check_id("run_id", run_id)
    parts, after = asking.parts, _step(after_step)
    if details or wants_text(request):
        shown = await full_view(parts, asking.tenant_id, run_id, after_step=after, limit=limit)
        body = RunDetailBody.of(shown.view, shown_json(shown))
        return answer(request, body, text=lambda: whole_run_lines(shown))
    view = await show_run(parts.store, parts.clock, asking.tenant_id, run_id, limit=1)
    return answer(request, RunDetailBody.of(view))


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
    opt=declares("run.view", "heavy", *UNKNOWN, "PLAN_MISSING", text=True),
    summary="What a run waits for, until when, and what one can do about it.",
)
async def get_why(asking: Asking, request: AnyRequest, run_id: FromPath[str]) -> Response[dict[str, Any]]:
    check_id("run_id", run_id)
    why = await why_run(asking.parts, asking.tenant_id, run_id)
    return answer(request, {**why_json(why), "runSeq": why.run_seq}, text=lambda: why_lines(why))


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
    if format == "html":
        from podium.operations.html_report import html_of, whole_report

        whole = await whole_report(asking.parts, asking.tenant_id, run_id)
        return content(request, html_of(whole).encode(), "text/html", headers=_NO_SCRIPTS)
    found = await report_run(asking.parts, asking.tenant_id, run_id)
    if format == "md":
        return content(request, as_markdown(found).encode(), "text/markdown")
    return answer(request, as_json(found), text=lambda: [as_markdown(found).rstrip("\n")])


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
    check_id("other_id", other_id)
    return answer(
        request, ComparisonBody.of(await compare_runs(asking.parts, asking.tenant_id, run_id, other_id))
    )


def _step(path: str) -> str:
    """A step from a query or a part of a path. Raises `InvalidId`."""
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
