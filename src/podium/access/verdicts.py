"""Validity of a plan's signature: whose it is, and whether that key may sign this plan now.

The caller provides the function that verifies the signature itself, so that this package needs no
cryptography.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from podium.access.keys import public_text
from podium.access.policy import TrustedKey
from podium.access.signatures import PlanSignature, SignatureMalformed, Statement
from podium.errors import PodiumError
from podium.log.payloads import SignedBy
from podium.log.plan_refs import PlanRef
from podium.log.times import Timestamp

# Public key, signature, message.
Verify = Callable[[bytes, bytes, bytes], bool]


class PlanNotSigned(PodiumError):
    code = "PLAN_NOT_SIGNED"


class PlanSignatureInvalid(PodiumError):
    """Made with another key, for another plan, or changed since."""

    code = "PLAN_SIGNATURE_INVALID"


class PlanSignatureExpired(PodiumError):
    code = "PLAN_SIGNATURE_EXPIRED"


class PlanSignerUnknown(PodiumError):
    """No trusted key has the id of the signature, or the key is not trusted in this tenant."""

    code = "PLAN_SIGNER_UNKNOWN"


class PlanKeyExpired(PodiumError):
    code = "PLAN_KEY_EXPIRED"


class TrustedKeys(msgspec.Struct, frozen=True):
    named: Mapping[str, TrustedKey] = MappingProxyType({})
    # Keys that a person trusts, whatever id a signature gives them.
    unnamed: tuple[TrustedKey, ...] = ()

    def candidates(self, key_id: str) -> Sequence[TrustedKey]:
        found = self.named.get(key_id)
        return [found] if found is not None else self.unnamed


class Finding(StrEnum):
    """What is wrong with a signature; later members are closer to being valid."""

    UNKNOWN_KEY = "unknown key"
    BAD_SIGNATURE = "bad signature"
    OTHER_PLAN = "other plan"
    OTHER_TENANT = "key of another tenant"
    KEY_EXPIRED = "expired key"
    EXPIRED = "expired signature"
    VALID = "valid"


# Decisions about permission to start: they are recorded.
REFUSALS: Final = (
    PlanNotSigned,
    PlanSignatureInvalid,
    PlanSignatureExpired,
    PlanSignerUnknown,
    PlanKeyExpired,
    SignatureMalformed,
)
_ERRORS: Final[Mapping[Finding, type[PodiumError]]] = {
    Finding.UNKNOWN_KEY: PlanSignerUnknown,
    Finding.BAD_SIGNATURE: PlanSignatureInvalid,
    Finding.OTHER_PLAN: PlanSignatureInvalid,
    Finding.OTHER_TENANT: PlanSignerUnknown,
    Finding.KEY_EXPIRED: PlanKeyExpired,
    Finding.EXPIRED: PlanSignatureExpired,
}


class Verdict(msgspec.Struct, frozen=True):
    """`key` is the trusted key with which the signature was checked, if there is one."""

    finding: Finding
    text: str
    statement: Statement
    key: TrustedKey | None = None

    @property
    def code(self) -> str | None:
        return _ERRORS[self.finding].code if self.finding in _ERRORS else None

    def signed_by(self) -> SignedBy:
        assert self.key is not None
        said = self.statement
        return SignedBy(said.key_id, public_text(self.key.public), said.signed_at, said.expires)


def judge(
    signature: PlanSignature,
    plan: PlanRef,
    keys: TrustedKeys,
    now: Timestamp,
    verify: Verify,
    tenant_id: str | None = None,
) -> Verdict:
    """The validity of one signature. Without a tenant, a key of any tenant is accepted.

    The signature is checked first: until it is valid, nothing in the statement can be relied on.
    """
    said = signature.statement
    candidates = keys.candidates(said.key_id)
    if not candidates:
        return Verdict(Finding.UNKNOWN_KEY, f"no trusted key has the id {said.key_id!r}", said)
    key = next((one for one in candidates if verify(one.public, signature.raw(), said.message())), None)
    if key is None:
        name = f"the trusted key {said.key_id!r}" if candidates[0].key_id else "a trusted key"
        text = f"it was not made with {name}, or was changed since"
        return Verdict(Finding.BAD_SIGNATURE, text, said, candidates[0])
    finding, text = _finding(said, plan, key, now, tenant_id)
    return Verdict(finding, text, said, key)


def _finding(
    said: Statement, plan: PlanRef, key: TrustedKey, now: Timestamp, tenant_id: str | None
) -> tuple[Finding, str]:
    signed = (said.plan_id, said.plan_version, said.sha256)
    if signed != (plan.plan_id, plan.plan_version, plan.sha256):
        return (
            Finding.OTHER_PLAN,
            f"it is for plan {said.plan_id} {said.plan_version} with sha256 {said.sha256}",
        )
    if tenant_id is not None and key.tenants and tenant_id not in key.tenants:
        return Finding.OTHER_TENANT, f"the key {said.key_id!r} is not trusted in tenant {tenant_id!r}"
    if key.expires is not None and key.expires <= now:
        return Finding.KEY_EXPIRED, f"the key {said.key_id!r} expired at {key.expires}"
    if said.expires is not None and said.expires <= now:
        return Finding.EXPIRED, f"it expired at {said.expires}"
    return Finding.VALID, f"signed with the key {said.key_id!r} at {said.signed_at}"


def require_valid(plan: PlanRef, verdicts: Sequence[Verdict]) -> tuple[SignedBy, ...]:
    """The signers. Raises the error of the signature that is closest to being valid, or `PlanNotSigned`."""
    valid = tuple(one.signed_by() for one in verdicts if one.finding is Finding.VALID)
    if valid:
        return valid
    if not verdicts:
        raise not_signed(plan)
    order = list(Finding)
    nearest = max(verdicts, key=lambda one: order.index(one.finding))
    reasons = "; ".join(f"signature of {one.statement.key_id!r}: {one.text}" for one in verdicts)
    raise _ERRORS[nearest.finding](
        f"{_shown(plan)} has no valid signature: {reasons}. {_ADVICE[nearest.finding]}"
    )


def not_signed(plan: PlanRef) -> PlanNotSigned:
    return PlanNotSigned(
        f"{_shown(plan)} is not signed; sign it with `podium sign PLAN --key FILE`, and give the signature with "
        "--signature, or publish it beside the plan"
    )


_ADVICE: Final = {
    Finding.UNKNOWN_KEY: "Add the key to `access.keys` in the configuration file if you trust it",
    Finding.BAD_SIGNATURE: "Sign the plan again with `podium sign`, and find out who changed the signature",
    Finding.OTHER_PLAN: "Give the signature of this plan, or sign it with `podium sign`",
    Finding.OTHER_TENANT: "Sign the plan with a key that `access.keys` lists for this tenant",
    Finding.KEY_EXPIRED: "Sign the plan with another key",
    Finding.EXPIRED: "Sign the plan again with `podium sign`",
}


def _shown(plan: PlanRef) -> str:
    return f"plan {plan.plan_id} {plan.plan_version} (sha256 {plan.sha256})"
