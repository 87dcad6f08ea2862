"""Notifications: test the targets of a workflow, and deliver what waits in a store."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple
from uuid import uuid4

from podium.errors import PodiumError
from podium.log.times import Timestamp
from podium.operations.parts import Parts
from podium.plan.loading import walk
from podium.plan.plan import Call, Notification, Plan, Workflow
from podium.runtime.notifications import Notice, deliver


class TriedTarget(NamedTuple):
    # `the workflow`, or the path of a step, and the kind of the target; without values of secrets.
    name: str
    # Why it did not accept the notification; empty if it did.
    problem: str


async def try_targets(plan: Plan, values: Mapping[str, str], at: Timestamp) -> list[TriedTarget]:
    """Send a test to each target of a plan."""
    tried = []
    for name, target, workflow in targets_of(plan):
        notice = Notice(
            id=str(uuid4()),
            on="test",
            run_id="test",
            workflow=plan.metadata.name,
            plan_id=plan.metadata.plan_id,
            at=at,
            text=f"{plan.metadata.name!r} is a test of `podium notify test`; nothing has happened",
        )
        try:
            await deliver(target, workflow, notice, values)
        except PodiumError as error:
            tried.append(TriedTarget(name, str(error)))
        else:
            tried.append(TriedTarget(name, ""))
    return tried


def targets_of(plan: Plan) -> Iterator[tuple[str, Notification, Workflow]]:
    for target in plan.workflow.notify:
        yield f"the workflow, {_kind(target)}", target, plan.workflow
    for path, step in walk(plan.workflow):
        for target in step.notify:
            yield f"step {path!r}, {_kind(target)}", target, plan.workflow
        if isinstance(step.body, Call):
            for target in step.body.workflow.notify:
                yield f"the workflow of {path!r}, {_kind(target)}", target, step.body.workflow


def _kind(target: Notification) -> str:
    if target.webhook is not None:
        return "webhook"
    return "command" if target.command else "apprise"


async def deliver_notifications(parts: Parts, deliver_all: Callable[[], Awaitable[int]]) -> int:
    """Deliver what waits in the store, for all tenants; returns how many still wait."""
    await parts.require_everywhere("store.relay")
    return await deliver_all()
