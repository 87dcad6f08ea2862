"""Validate and publish workflows, and show what was published."""

from hashlib import sha256
from typing import Annotated, Final, Literal

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from podium.log.published_plans import PlanPage
from podium.operations.published_plans import (
    approve_plan,
    find_plan,
    list_plans,
    open_plan,
    publish_workflow,
    validate_workflow,
)
from podium.plan.loading import plan_bytes
from podium.server.answering import answer, content
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.plan_bodies import ApprovalBody, PlanBody, PlansBody, ValidationBody, WorkflowBody
from podium.server.run_routes import AnyRequest, Limit
from podium.wiring.agents import installed_providers

_UNKNOWN: Final = ("PLAN_NOT_PUBLISHED", "INVALID_ID")
# SVG can contain scripts; ours contains none, and a browser that opens it directly runs none.
_PICTURES: Final = {
    "svg": "image/svg+xml",
    "mermaid": "text/plain",
    "dot": "text/plain",
    "ascii": "text/plain",
}
_NO_SCRIPTS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
PictureFormat = Literal["svg", "mermaid", "dot", "ascii"]


@post(
    "/plans/validate",
    status_code=200,
    opt=declares("plan.validate", "heavy"),
    summary="Check a workflow; nothing is stored.",
)
async def validate(
    asking: Asking, request: AnyRequest, data: JSONBody[WorkflowBody]
) -> Response[ValidationBody]:
    reading = await validate_workflow(
        asking.parts, asking.tenant_id, data.workflow.encode(errors="surrogatepass"), installed_providers
    )
    plan = reading.plan
    body = ValidationBody(
        valid=plan is not None,
        diagnostics=tuple(dict(one.as_json()) for one in reading.diagnostics),
        omitted=reading.omitted,
        plan_id=plan.metadata.plan_id if plan is not None else None,
        plan_version=plan.metadata.plan_version if plan is not None else None,
        sha256=sha256(plan_bytes(plan)).hexdigest() if plan is not None else None,
    )
    return answer(request, body)


@post(
    "/plans",
    status_code=201,
    opt=declares("plan.publish", "heavy", "INVALID_WORKFLOW", "PLAN_EXISTS", also=(200,)),
    summary="Publish the plan of a workflow. The same one again is not an error (200).",
)
async def publish(asking: Asking, request: AnyRequest, data: JSONBody[WorkflowBody]) -> Response[PlanBody]:
    done = await publish_workflow(
        asking.parts, asking.tenant_id, data.workflow.encode(errors="surrogatepass"), installed_providers
    )
    body = PlanBody.of(done.plan)
    place = f"/api/v1/plans/{body.plan_id}/versions/{body.plan_version}"
    return answer(request, body, status=201 if done.is_new else 200, headers={"Location": place})


@get("/plans", opt=declares("plan.view", "list", "INVALID_ID"), summary="The newest version of every plan.")
async def get_plans(
    asking: Asking,
    request: AnyRequest,
    limit: Limit = 50,
    cursor: Annotated[str | None, QueryParameter(description="Of the page before.")] = None,
) -> Response[PlansBody]:
    return answer(
        request, _page(await list_plans(asking.parts, asking.tenant_id, cursor=cursor, limit=limit))
    )


@get(
    "/plans/{plan_id:str}/versions",
    opt=declares("plan.view", "list", *_UNKNOWN),
    summary="All versions of a plan, those published last first.",
)
async def get_versions(
    asking: Asking,
    request: AnyRequest,
    plan_id: FromPath[str],
    limit: Limit = 50,
    cursor: Annotated[str | None, QueryParameter(description="Of the page before.")] = None,
) -> Response[PlansBody]:
    found = await find_plan(asking.parts, asking.tenant_id, plan_id)
    page = await list_plans(asking.parts, asking.tenant_id, plan_id=found.plan_id, cursor=cursor, limit=limit)
    return answer(request, _page(page))


def _page(page: PlanPage) -> PlansBody:
    return PlansBody(plans=tuple(map(PlanBody.of, page.plans)), cursor=page.cursor)


@get(
    ["/plans/{plan_id:str}", "/plans/{plan_id:str}/versions/{version:str}"],
    opt=declares("plan.view", "read", *_UNKNOWN),
    summary="One version of a plan; without a version the one published last. The id may be its SHA-256.",
)
async def get_plan(
    asking: Asking, request: AnyRequest, plan_id: FromPath[str], version: FromPath[str | None] = None
) -> Response[PlanBody]:
    return answer(request, PlanBody.of(await find_plan(asking.parts, asking.tenant_id, plan_id, version)))


@get(
    ["/plans/{plan_id:str}/source", "/plans/{plan_id:str}/versions/{version:str}/source"],
    media_type="text/plain",
    opt=declares("plan.view", "read", *_UNKNOWN),
    summary="The workflow file that a plan was compiled from.",
)
async def get_source(
    asking: Asking, request: AnyRequest, plan_id: FromPath[str], version: FromPath[str | None] = None
) -> Response[str]:
    found = await open_plan(asking.parts, asking.tenant_id, plan_id, version)
    return content(request, found.content.source, "text/plain", immutable=_is_named(plan_id, version))


@get(
    ["/plans/{plan_id:str}/picture", "/plans/{plan_id:str}/versions/{version:str}/picture"],
    media_type="image/svg+xml",
    opt=declares("plan.view", "heavy", *_UNKNOWN),
    summary="A plan as a picture.",
)
async def get_picture(
    asking: Asking,
    request: AnyRequest,
    plan_id: FromPath[str],
    version: FromPath[str | None] = None,
    format: FromQuery[PictureFormat] = "svg",  # noqa: A002  the name in the URL
) -> Response[str]:
    found = await open_plan(asking.parts, asking.tenant_id, plan_id, version)
    # Imported with the first picture.
    from podium.drawing import drawn

    picture = drawn(found.plan, format).encode()
    media_type = _PICTURES[format]
    return content(request, picture, media_type, headers=_NO_SCRIPTS, immutable=_is_named(plan_id, version))


def _is_named(plan_id: FromPath[str], version: str | None) -> bool:
    """The newest version of a plan may change; a given version, or a hash, never does."""
    return version is not None or len(plan_id) == 64


@post(
    ["/plans/{plan_id:str}/approve", "/plans/{plan_id:str}/versions/{version:str}/approve"],
    status_code=200,
    opt=declares("plan.approve", "write", *_UNKNOWN, "APPROVAL_PLAN_MISMATCH"),
    summary="Approve a plan, named by its SHA-256.",
)
async def approve(
    asking: Asking,
    request: AnyRequest,
    plan_id: FromPath[str],
    data: JSONBody[ApprovalBody],
    version: FromPath[str | None] = None,
) -> Response[PlanBody]:
    done = await approve_plan(asking.parts, asking.tenant_id, plan_id, version, data.plan_sha256)
    return answer(request, PlanBody.of(done))


ROUTES: Final = [validate, publish, get_plans, get_versions, get_plan, get_source, get_picture, approve]
