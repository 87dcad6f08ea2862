"""The plan of a schedule's or hook's runs, in the form in which it is stored with them."""

from hashlib import sha256

import msgspec

from podium.operations.parts import Parts
from podium.operations.published_plans import open_referred
from podium.plan.plan import Plan
from podium.runtime.plan_file import PLAN, WORKFLOW


class KeptPlan(msgspec.Struct, frozen=True):
    """`contents`: what a run is created with, by name."""

    plan: Plan
    contents: dict[str, bytes]

    @property
    def sha256(self) -> str:
        return sha256(self.contents[PLAN]).hexdigest()


async def published_plan(parts: Parts, tenant_id: str, reference: str) -> KeptPlan:
    """`reference`: `id@version`, or the SHA-256 of a published plan. Raises what `open_referred` raises."""
    found = await open_referred(parts, tenant_id, reference)
    return KeptPlan(found.plan, {PLAN: found.content.content, WORKFLOW: found.content.source})
