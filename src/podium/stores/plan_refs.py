"""The plan reference of a run as a column: JSON, or NULL if only the store has the plan."""

import msgspec

from podium.log.plan_refs import PlanRef


def plan_ref_column(ref: PlanRef | None) -> bytes | None:
    return msgspec.json.encode(ref) if ref is not None else None


def plan_ref_of(column: bytes | None) -> PlanRef | None:
    return msgspec.json.decode(column, type=PlanRef) if column is not None else None
