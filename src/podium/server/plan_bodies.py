"""Published plans as the API shows them."""

from typing import Any

import msgspec

from podium.log.published_plans import PublishedPlan


class WorkflowBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`workflow`: the text of a workflow file or of a node contract."""

    workflow: str


class PlanBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One version of a plan. A run refers to it as `planId@planVersion`, or by its hash."""

    plan_id: str
    plan_version: str
    sha256: str
    schema_version: str
    size_bytes: int
    name: str
    published_at: str
    published_by: str
    approved_at: str | None = None
    approved_by: str | None = None

    @classmethod
    def of(cls, plan: PublishedPlan) -> "PlanBody":
        fields = {name: getattr(plan, name) for name in cls.__struct_fields__}
        return cls(**fields)


class PlansBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page, those published last first. `cursor`: of the next page, null if this was the last one."""

    plans: tuple[PlanBody, ...]
    cursor: str | None


class ValidationBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is wrong with a workflow; warnings, too. `planId`, `planVersion` and `sha256` of a valid one."""

    valid: bool
    diagnostics: tuple[dict[str, Any], ...]
    omitted: int
    plan_id: str | None = None
    plan_version: str | None = None
    sha256: str | None = None


class ApprovalBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`planSha256`: of the plan that was looked at."""

    plan_sha256: str
