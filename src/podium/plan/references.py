"""Whether bytes are the plan that a reference names. The bytes alone decide, wherever they come from."""

from hashlib import sha256

import msgspec

from podium.errors import PodiumError
from podium.log.plan_refs import PlanRef
from podium.log.times import Timestamp
from podium.plan.canonical import NotCanonical, canonical_json
from podium.plan.loading import InvalidPlan, check_schema_version, read_plan
from podium.plan.plan import Plan
from podium.plan.structure import check_structure


class PlanIntegrityFailed(PodiumError):
    """The bytes are not those that the reference was made for; they are not even parsed."""

    code = "PLAN_INTEGRITY_VALIDATION_FAILED"

    def __init__(self, where: str, expected: str, actual: str) -> None:
        super().__init__(
            f"the plan at {where} has sha256 {actual}, and its reference says {expected}: it was changed after it was "
            "published, or the reference is that of another plan. Nothing was run; publish the plan again with "
            "`podium publish`, and find out who changed it"
        )
        self.expected = expected
        self.actual = actual


class PlanRefMismatch(PodiumError):
    """The bytes match the reference, but the plan in them differs from what the reference says."""

    code = "PLAN_REF_MISMATCH"


class PlanRefExpired(PodiumError):
    code = "PLAN_REF_EXPIRED"


def reference_to(plan: Plan, content: bytes, uri: str = "") -> PlanRef:
    """`content`: the bytes of the plan as they are published."""
    return PlanRef(
        uri=uri,
        sha256=sha256(content).hexdigest(),
        schema_version=plan.schema_version,
        plan_id=plan.metadata.plan_id,
        plan_version=plan.metadata.plan_version,
        size_bytes=len(content),
    )


def check_usable(ref: PlanRef, now: Timestamp) -> None:
    """Called before anything is fetched. Raises `PlanVersionUnknown`, `PlanRefExpired`."""
    check_schema_version(ref.schema_version)
    if ref.expires_at is not None and ref.expires_at <= now:
        raise PlanRefExpired(
            f"the reference to plan {ref.plan_id} {ref.plan_version} expired at {ref.expires_at}; publish the plan "
            "again with `podium publish`, or ask for a new reference"
        )


def check_hash(where: str, expected: str, content: bytes) -> None:
    """Raises `PlanIntegrityFailed`."""
    actual = sha256(content).hexdigest()
    if actual != expected:
        raise PlanIntegrityFailed(where, expected, actual)


def verified_plan(ref: PlanRef, content: bytes) -> Plan:
    """Raises `PlanIntegrityFailed`, `PlanVersionUnknown`, `InvalidPlan`, `InvalidStep`, `PlanRefMismatch`."""
    check_hash(ref.uri or "the store", ref.sha256, content)
    plan = read_published(content)
    found = reference_to(plan, content)
    for field in ("plan_id", "plan_version", "schema_version", "size_bytes"):
        said, is_ = getattr(ref, field), getattr(found, field)
        if said is not None and said != is_:
            raise PlanRefMismatch(
                f"the plan at {ref.uri or 'the store'} has {field} {is_!r}, and its reference says {said!r}; use the "
                "reference that `podium publish` printed for this plan"
            )
    return plan


def read_published(content: bytes) -> Plan:
    """A plan from outside: it must be canonical and consistent."""
    plan = read_plan(content)
    _check_canonical(content)
    check_structure(plan)
    return plan


def _check_canonical(content: bytes) -> None:
    """Duplicate keys and non-canonical spellings could be understood differently by another parser."""
    try:
        is_canonical = canonical_json(msgspec.json.decode(content)) == content
    except (NotCanonical, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidPlan(f"this is not a plan: {error}; publish it with `podium publish`") from error
    if not is_canonical:
        raise InvalidPlan(
            "this is not a plan: it is not canonical JSON (RFC 8785), without spaces and with sorted keys; publish it "
            "with `podium publish`, or write it with `podium plan FILE --json`"
        )
