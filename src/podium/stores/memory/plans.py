"""Published plans in memory."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from podium.log.published_plans import PlanContent, PlanPage, PublishedPlan, check_published
from podium.log.times import Timestamp
from podium.stores import plan_rules, texts

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


class MemoryPlans:
    """Implements `podium.ports.published_plans.PublishedPlans`."""

    def __init__(self, record_audit: "Callable[[Sequence[AuditDraft]], None]") -> None:
        self._record_audit = record_audit
        # In the order of their publication.
        self._plans: list[tuple[PublishedPlan, PlanContent]] = []

    async def publish(
        self, plan: PublishedPlan, content: PlanContent, *, audit: "Sequence[AuditDraft]" = ()
    ) -> PublishedPlan:
        check_published(plan)
        texts.check_audit(audit)
        earlier = await self.find(plan.tenant_id, plan.plan_id, plan.plan_version)
        if earlier is not None:
            return plan_rules.same_plan(plan, earlier)
        self._plans.append((plan, content))
        self._record_audit(audit)
        return plan

    async def find(self, tenant_id: str, plan_id: str, version: str | None = None) -> PublishedPlan | None:
        found = (
            plan
            for plan, _ in reversed(self._plans)
            if plan.tenant_id == tenant_id
            and plan_id in (plan.plan_id, plan.sha256)
            and version in (None, plan.plan_version)
        )
        return next(found, None)

    async def content(self, tenant_id: str, sha256: str) -> PlanContent | None:
        found = (
            content for plan, content in self._plans if plan.tenant_id == tenant_id and plan.sha256 == sha256
        )
        return next(found, None)

    async def page(
        self, tenant_id: str, *, plan_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> PlanPage:
        last = texts.page_cursor(cursor)
        found: list[tuple[int, PublishedPlan]] = []
        seen: set[str] = set()
        for number, (plan, _) in reversed(list(enumerate(self._plans, 1))):
            is_wanted = plan.plan_id == plan_id if plan_id is not None else plan.plan_id not in seen
            if plan.tenant_id != tenant_id or not is_wanted:
                continue
            seen.add(plan.plan_id)
            if last is None or number < last:
                found.append((number, plan))
        return plan_rules.page_of(found, limit)

    async def approve(
        self,
        tenant_id: str,
        sha256: str,
        by: str,
        at: Timestamp,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> bool:
        texts.check_audit(audit)
        for index, (plan, content) in enumerate(self._plans):
            if plan.tenant_id == tenant_id and plan.sha256 == sha256 and plan.approved_at is None:
                self._plans[index] = (replace(plan, approved_at=at, approved_by=by), content)
                self._record_audit(audit)
                return True
        return False
