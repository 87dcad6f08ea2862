"""Starts a run of a published plan in a pool: a worker executes it."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from podium.log.engines import LOCAL
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_POOL, DEFAULT_PROJECT
from podium.log.tracing import TRACEPARENT, parse_traceparent
from podium.operations.inputs import check_inputs
from podium.operations.on_limit import OnLimit
from podium.operations.parts import Parts
from podium.operations.published_plans import open_referred
from podium.operations.rerunning import rerun_request
from podium.operations.start import may_start
from podium.operations.submitting import Submitted, submit_run
from podium.plan.capabilities import check_capabilities
from podium.ports.engine import RunRequest


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A caller's request. It does not include the tenant, which is determined by the caller's identity."""

    # `id@version`, or the SHA-256 of a published plan.
    plan: str
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    pool: str = DEFAULT_POOL
    priority: int | None = None
    concurrency_key: str | None = None
    # None: what the configuration says.
    on_limit: OnLimit | None = None
    start_at: datetime | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    # Two orders with the same id are one run.
    request_id: str | None = None
    # The span that the run is a part of, as a W3C header; one that is not valid is ignored.
    traceparent: str | None = None


async def order_run(parts: Parts, tenant_id: str, order: RunOrder) -> Submitted:
    """Create the run, or find the one that this order created before. Its id is chosen here.

    Raises `InvalidInput`, and what `open_referred` and `submit_run` raise.
    """
    await may_start(parts, tenant_id)
    found = await open_referred(parts, tenant_id, order.plan)
    check_capabilities(found.plan, LOCAL)
    caller = parse_traceparent(order.traceparent)
    request = RunRequest(
        found.plan,
        inputs=check_inputs(order.inputs, found.plan.workflow),
        source=found.content.source,
        workspace=parts.workspace,
        tenant_id=tenant_id,
        project_id=order.project_id,
        environment_id=order.environment_id,
        plan_content=found.content.content,
        plan_approved_by=found.published.approved_by,
        run_request_id=order.request_id,
        concurrency_key=order.concurrency_key,
        priority=order.priority,
        pool=order.pool,
        labels=order.labels,
        engine_facts={TRACEPARENT: caller.header} if caller is not None else {},
    )
    return await submit_run(parts, request, on_limit=_on_limit(parts, order), start_at=order.start_at)


def _on_limit(parts: Parts, order: RunOrder) -> OnLimit:
    """The default holds for runs that may start immediately: limits count when a start time has come."""
    if order.on_limit is not None:
        return order.on_limit
    return parts.on_limit() if order.start_at is None else OnLimit.QUEUE


async def order_rerun(parts: Parts, tenant_id: str, run_id: str, request_id: str | None = None) -> Submitted:
    """A new run of the same plan and inputs, from its first step on. Raises what `rerun_request` raises."""
    request = await rerun_request(parts, tenant_id, run_id)
    request = replace(request, pool=request.pool or DEFAULT_POOL, run_request_id=request_id)
    return await submit_run(parts, request)
