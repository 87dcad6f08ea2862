"""Publishes plans in the store of a tenant, shows them, and approves them.

A workflow from the network is read without any file beside it: a path in it must not read the disk of the
server. Files that it needs are in the workspace of the worker, or are sent with it as inputs.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from podium.errors import PodiumError
from podium.log.ids import check_id, is_id
from podium.log.plan_refs import is_sha256
from podium.log.published_plans import PlanContent, PlanPage, PublishedPlan
from podium.log.times import timestamp
from podium.operations.parts import Parts
from podium.operations.plans import InvalidPlanRef
from podium.operations.workflows import InvalidWorkflow, looks_like_contract
from podium.plan.loading import plan_bytes, read_plan
from podium.plan.plan import Plan
from podium.text import shortened

if TYPE_CHECKING:
    from podium.language.workflow import WorkflowReading

# The name of the uploaded file in messages.
NAME: Final = "workflow.yaml"
_MAX_PLANS: Final = 32

InstalledProviders = Callable[[], tuple[str, ...]]


class PlanNotPublished(PodiumError):
    """The plan does not exist in this tenant."""

    code = "PLAN_NOT_PUBLISHED"

    def __init__(self, plan: str) -> None:
        super().__init__(
            f"plan {shortened(plan)!r} is not published here; name one as id@version or by its SHA-256"
        )


class Publication(NamedTuple):
    plan: PublishedPlan
    # False: the same plan was published before.
    is_new: bool


class FoundPlan(NamedTuple):
    published: PublishedPlan
    plan: Plan
    content: PlanContent


async def validate_workflow(
    parts: Parts, tenant_id: str, source: bytes, installed: InstalledProviders = tuple
) -> "WorkflowReading":
    """Everything that is wrong with a workflow. Raises what `Parts.require` raises."""
    await parts.require("plan.validate", tenant_id)
    return await asyncio.to_thread(_read, source, installed)


async def publish_workflow(
    parts: Parts, tenant_id: str, source: bytes, installed: InstalledProviders = tuple
) -> Publication:
    """Raises `InvalidWorkflow`, `PlanExists`, and what `Parts.require` raises."""
    await parts.require("plan.publish", tenant_id, records=False)
    reading = await asyncio.to_thread(_read, source, installed)
    if reading.plan is None:
        raise InvalidWorkflow(reading)
    plan, content = reading.plan, plan_bytes(reading.plan)
    new = PublishedPlan(
        tenant_id=tenant_id,
        plan_id=plan.metadata.plan_id,
        plan_version=plan.metadata.plan_version,
        sha256=sha256(content).hexdigest(),
        schema_version=plan.schema_version,
        size_bytes=len(content),
        name=plan.metadata.name,
        published_at=timestamp(parts.clock.now()),
        published_by=parts.access().actor.name,
    )
    audit = parts.decided("plan.publish", tenant_id, new.sha256)
    kept = await parts.store.plans.publish(new, PlanContent(content, source), audit=audit)
    return Publication(kept, is_new=kept is new)


def _read(source: bytes, installed: InstalledProviders) -> "WorkflowReading":
    """Called in a thread: a large workflow takes seconds, and other requests must not wait."""
    if looks_like_contract(source, NAME):
        from podium.nodes.compiling import compile_contract
        from podium.nodes.registry import NodeRegistry

        return compile_contract(source, NAME, NodeRegistry())
    # Imported with the first workflow: a server starts without it.
    from podium.language.workflow import read_workflow

    return read_workflow(source, NAME, missing_is_error=True, installed_providers=installed)


async def list_plans(
    parts: Parts, tenant_id: str, *, plan_id: str | None = None, cursor: str | None = None, limit: int = 50
) -> PlanPage:
    """The newest version of every plan, or all versions of one."""
    await parts.require("plan.view", tenant_id)
    return await parts.store.plans.page(tenant_id, plan_id=plan_id, cursor=cursor, limit=limit)


async def find_plan(parts: Parts, tenant_id: str, plan_id: str, version: str | None = None) -> PublishedPlan:
    """`plan_id`: the id of a plan, or its SHA-256. Raises `InvalidId`, `PlanNotPublished`."""
    await parts.require("plan.view", tenant_id)
    return await _find(parts, tenant_id, plan_id, version)


async def _find(parts: Parts, tenant_id: str, plan_id: str, version: str | None) -> PublishedPlan:
    check_id("plan_id", plan_id)
    if version is not None:
        check_id("plan_version", version)
    found = await parts.store.plans.find(tenant_id, plan_id, version)
    if found is None:
        raise PlanNotPublished(plan_id if version is None else f"{plan_id}@{version}")
    return found


async def open_plan(parts: Parts, tenant_id: str, plan_id: str, version: str | None = None) -> FoundPlan:
    """The plan with its content. Raises what `find_plan` raises."""
    published = await find_plan(parts, tenant_id, plan_id, version)
    content = await parts.store.plans.content(tenant_id, published.sha256)
    if content is None:
        raise PlanNotPublished(plan_id)
    return FoundPlan(published, _decoded(published.sha256, content.content), content)


async def open_referred(parts: Parts, tenant_id: str, reference: str) -> FoundPlan:
    """`reference`: `id@version`, or the SHA-256 of a plan. Raises `InvalidPlanRef`, `InvalidId`, `PlanNotPublished`."""
    if is_sha256(reference):
        return await open_plan(parts, tenant_id, reference)
    plan_id, at, version = reference.rpartition("@")
    if not at or not is_id(plan_id) or not is_id(version):
        # Quoted as a whole: a part of an address with a password would not be recognized as one.
        raise InvalidPlanRef(
            f"{shortened(reference)!r} does not say which plan to run; write id@version, or the 64 hex digits of its "
            "SHA-256"
        )
    return await open_plan(parts, tenant_id, plan_id, version)


async def approve_plan(
    parts: Parts, tenant_id: str, plan_id: str, version: str | None, plan_sha256: str
) -> PublishedPlan:
    """An approval names the plan by its hash, so that what is approved is what was reviewed.

    Approving it again changes nothing. Raises `ApprovalPlanMismatch`, and what `find_plan` raises.
    """
    from podium.operations.run_approval import ApprovalPlanMismatch

    found = await find_plan(parts, tenant_id, plan_id, version)
    await parts.require("plan.approve", tenant_id, records=False)
    if plan_sha256 != found.sha256:
        raise ApprovalPlanMismatch(
            f"the approval is for the plan with SHA-256 {shortened(plan_sha256)!r}, and {found.plan_id}@"
            f"{found.plan_version} has {found.sha256}; approve only the plan that you have looked at"
        )
    by, at = parts.access().actor.name, timestamp(parts.clock.now())
    audit = parts.decided("plan.approve", tenant_id, found.sha256)
    await parts.store.plans.approve(tenant_id, found.sha256, by, at, audit=audit)
    return await _find(parts, tenant_id, found.plan_id, found.plan_version)


# Decoding a plan of a thousand steps takes longer than everything else in starting a run.
_decoded_plans: "OrderedDict[str, Plan]" = OrderedDict()


def _decoded(digest: str, content: bytes) -> Plan:
    plan = _decoded_plans.get(digest)
    if plan is None:
        plan = _decoded_plans[digest] = read_plan(content)
        if len(_decoded_plans) > _MAX_PLANS:
            _decoded_plans.popitem(last=False)
    return plan
