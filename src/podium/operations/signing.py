"""Signs plans, and verifies the signatures of a plan. Does not need a store."""

from collections.abc import Sequence

import msgspec

from podium.access.policy import TrustedKey
from podium.access.signatures import (
    PURPOSE,
    PlanSignature,
    Statement,
    encode_signature,
    parse_signatures,
)
from podium.access.verdicts import Finding, PlanSignatureInvalid, TrustedKeys, Verdict, judge
from podium.log.ids import is_id
from podium.log.plan_refs import PlanRef
from podium.log.times import Timestamp, parse_moment
from podium.operations.inputs import InvalidInput
from podium.operations.plans import parse_reference
from podium.plan.references import read_published, reference_to
from podium.runtime import ed25519
from podium.runtime.ed25519 import SigningKey
from podium.runtime.plan_loading import FetchedPlan
from podium.text import shortened


def read_plan_file(content: bytes, name: str) -> FetchedPlan | PlanRef | None:
    """The plan in a file, or a reference to one; None for a file with anything else, such as a workflow.

    Raises what `read_published` and `parse_reference` raise.
    """
    keys = _keys_of(content)
    if {"schemaVersion", "workflow"} <= keys:
        plan = read_published(content)
        return FetchedPlan(reference_to(plan, content), plan, content)
    if {"sha256", "planId"} <= keys:
        return parse_reference(content, name)
    return None


def _keys_of(content: bytes) -> frozenset[str]:
    """The keys of a JSON object; a workflow may be written in JSON, too."""
    if not content.lstrip().startswith(b"{"):
        return frozenset()
    try:
        return frozenset(msgspec.json.decode(content, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()


def sign_plan(
    plan: PlanRef,
    key: SigningKey,
    key_id: str,
    *,
    now: Timestamp,
    expires: Timestamp | None = None,
    earlier: Sequence[PlanSignature] = (),
) -> list[PlanSignature]:
    """The new signature, appended to the existing signatures of the same plan."""
    if not is_id(key_id):
        raise InvalidInput(
            f"{shortened(key_id)!r} is not a possible id of a key: use 1-128 letters, digits or . _ : @ + -; give one "
            "with --key-id"
        )
    statement = Statement(
        podium=PURPOSE,
        plan_id=plan.plan_id,
        plan_version=plan.plan_version,
        sha256=plan.sha256,
        key_id=key_id,
        signed_at=now,
        expires=expires,
    )
    return [*_still_valid(earlier, plan, key_id), encode_signature(statement, key.sign(statement.message()))]


def _still_valid(earlier: Sequence[PlanSignature], plan: PlanRef, key_id: str) -> list[PlanSignature]:
    """Signatures of earlier content of the plan, and older ones of the same key, are replaced."""
    return [one for one in earlier if one.statement.sha256 == plan.sha256 and one.statement.key_id != key_id]


def verify_plan(
    plan: PlanRef,
    signatures: bytes,
    name: str,
    keys: TrustedKeys,
    now: Timestamp,
    tenant_id: str | None = None,
) -> list[Verdict]:
    """The verification of each signature in a file (`name`, for messages). Raises `SignatureMalformed`,
    `ExtraMissing`.
    """
    found = parse_signatures(signatures, name)
    return [judge(one, plan, keys, now, ed25519.verify, tenant_id) for one in found]


def parse_expiry(text: str, now: Timestamp) -> Timestamp:
    """A date, or a moment with its time zone; in the future. Raises `InvalidInput`."""
    expires = parse_moment(text)
    if expires is None:
        raise InvalidInput(
            f"{shortened(text)!r} is not a date; write it like 2027-01-01, or like 2027-01-01T12:00:00Z"
        )
    if expires <= now:
        raise InvalidInput(f"{shortened(text)!r} has passed; a signature that has expired is of no use")
    return expires


def signatures_of(plan: PlanRef, signatures: bytes, name: str) -> bytes:
    """The same bytes, if all signatures in them are for this plan, by whichever key. Raises
    `PlanSignatureInvalid`.
    """
    found = parse_signatures(signatures, name)
    others = [one.statement for one in found if one.statement.sha256 != plan.sha256]
    if others or not found:
        said = f"is for plan {others[0].plan_id} {others[0].plan_version}" if others else "has no signature"
        raise PlanSignatureInvalid(
            f"{shortened(name, 200)!r} {said}, and the plan is {plan.plan_id} {plan.plan_version} with sha256 "
            f"{plan.sha256}; sign it with `podium sign`"
        )
    return signatures


def is_signed_by(
    plan: PlanRef, signatures: bytes, name: str, key_id: str, public: bytes, now: Timestamp
) -> bool:
    """Whether one of them is a valid signature of this key."""
    keys = TrustedKeys({key_id: TrustedKey(key_id, public)})
    return any(one.finding is Finding.VALID for one in verify_plan(plan, signatures, name, keys, now))
