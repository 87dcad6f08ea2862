"""Plans that a tenant has published: runs start from them by reference, never from the text of a workflow."""

import msgspec

from podium.errors import InvalidEvent
from podium.log.ids import check_id
from podium.log.plan_refs import is_sha256
from podium.log.times import Timestamp


class PublishedPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One version of a plan. It never changes; only its approval is added."""

    tenant_id: str
    plan_id: str
    plan_version: str
    # Hash of its canonical bytes.
    sha256: str
    schema_version: str
    size_bytes: int
    name: str
    published_at: Timestamp
    published_by: str
    approved_at: Timestamp | None = None
    approved_by: str | None = None


class PlanContent(msgspec.Struct, frozen=True):
    """The canonical bytes of a plan, and the workflow file that it was compiled from."""

    content: bytes
    source: bytes


class PlanPage(msgspec.Struct, frozen=True, kw_only=True):
    plans: tuple[PublishedPlan, ...]
    # None on the last page.
    cursor: str | None


def check_published(plan: PublishedPlan) -> None:
    """Refuse what no store may keep; all stores apply the same rule."""
    check_id("tenant_id", plan.tenant_id)
    check_id("plan_id", plan.plan_id)
    check_id("plan_version", plan.plan_version)
    if not is_sha256(plan.sha256):
        raise InvalidEvent(f"sha256 {plan.sha256!a} of a published plan is not 64 lower-case hex digits")
