"""Rules of publishing a plan, for all stores."""

from collections.abc import Sequence

from podium.log.published_plans import PlanPage, PublishedPlan
from podium.ports.plan_source import PlanExists


def same_plan(plan: PublishedPlan, earlier: PublishedPlan) -> PublishedPlan:
    """The plan that was published before under this id and version. Raises `PlanExists` if it differs."""
    if earlier.sha256 != plan.sha256:
        raise PlanExists(
            f"version {plan.plan_version} of plan {plan.plan_id!r} was published with SHA-256 {earlier.sha256} and "
            "never changes; publish a changed workflow under another `version`"
        )
    return earlier


def page_of(found: Sequence[tuple[int, PublishedPlan]], limit: int) -> PlanPage:
    """`found`: one more than requested, if there are more."""
    shown = found[:limit]
    cursor = str(shown[-1][0]) if len(found) > len(shown) and shown else None
    return PlanPage(plans=tuple(plan for _, plan in shown), cursor=cursor)
