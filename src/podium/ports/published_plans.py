"""Storage of tenants' plans until runs start from them. Part of the store, because servers share nothing
else.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from podium.log.published_plans import PlanContent, PlanPage, PublishedPlan
from podium.log.times import Timestamp

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


class PublishedPlans(Protocol):
    """Every call names the tenant: a plan of another tenant appears not to exist."""

    async def publish(
        self, plan: PublishedPlan, content: PlanContent, *, audit: "Sequence[AuditDraft]" = ()
    ) -> PublishedPlan:
        """Durable when it returns. If the same version with the same hash was published before, that one is
        returned and nothing is recorded. With another hash it raises `PlanExists`.
        """
        ...

    async def find(self, tenant_id: str, plan_id: str, version: str | None = None) -> PublishedPlan | None:
        """`plan_id`: the id of a plan, or its SHA-256. Without a version: the one that was published last."""
        ...

    async def content(self, tenant_id: str, sha256: str) -> PlanContent | None: ...

    async def page(
        self, tenant_id: str, *, plan_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> PlanPage:
        """The newest version of every plan, or all versions of one; most recently published first."""
        ...

    async def approve(
        self,
        tenant_id: str,
        sha256: str,
        by: str,
        at: Timestamp,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> bool:
        """False, without recording anything, if it was approved before or does not exist."""
        ...
