"""Signatures of plans: which are valid, and what is said of the others."""

import base64
import json
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st

from podium.access.keys import InvalidPublicKey, parse_public, public_text
from podium.access.policy import TrustedKey
from podium.access.signatures import (
    MAX_BYTES,
    PURPOSE,
    PlanSignature,
    SignatureMalformed,
    Statement,
    encode_signature,
    parse_signatures,
    write_signatures,
)
from podium.access.verdicts import Finding, TrustedKeys, Verdict, judge, require_valid
from podium.errors import PodiumError
from podium.log.plan_refs import PlanRef
from podium.log.times import later
from podium.operations.inputs import InvalidInput
from podium.operations.signing import parse_expiry, read_plan_file, sign_plan, verify_plan
from podium.operations.workflows import require_workflow
from podium.plan.canonical import canonical_json
from podium.plan.loading import plan_bytes
from podium.runtime import ed25519
from podium.runtime.ed25519 import SigningKey
from podium.runtime.plan_loading import FetchedPlan

NOW = "2026-11-16T12:00:00.000000Z"
PLAN = PlanRef(sha256="ab" * 32, schema_version="v1.2", plan_id="release", plan_version="7")
_PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEY = SigningKey(_PRIVATE)
OTHER = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))


def trusted(key: SigningKey = KEY, key_id: str = "k1", **fields: Any) -> TrustedKeys:
    return TrustedKeys({key_id: TrustedKey(key_id, key.public, **fields)})


def signed(key: SigningKey = KEY, key_id: str = "k1", plan: PlanRef = PLAN, **fields: Any) -> PlanSignature:
    return sign_plan(plan, key, key_id, now=NOW, **fields)[0]


def verdict(
    signature: PlanSignature, keys: TrustedKeys | None = None, now: str = NOW, tenant: str | None = "acme"
) -> Verdict:
    return judge(signature, PLAN, keys or trusted(), now, ed25519.verify, tenant)


def code_of(*verdicts: Verdict) -> str:
    with pytest.raises(PodiumError) as refused:
        require_valid(PLAN, verdicts)
    return refused.value.code


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.rule("SG02")
def test_a_signature_of_a_trusted_key_is_valid_and_says_who_signed() -> None:
    [by] = require_valid(PLAN, [verdict(signed())])
    assert (by.key_id, by.public, by.signed_at) == ("k1", public_text(KEY.public), NOW)


@pytest.mark.rule("SG02")
def test_a_key_that_is_not_listed_is_unknown() -> None:
    found = verdict(signed(OTHER, "k2"))
    assert (found.finding, code_of(found)) == (Finding.UNKNOWN_KEY, "PLAN_SIGNER_UNKNOWN")


@pytest.mark.rule("SG02")
def test_the_id_of_a_trusted_key_does_not_make_another_key_trusted() -> None:
    found = verdict(signed(OTHER, "k1"))
    assert (found.finding, code_of(found)) == (Finding.BAD_SIGNATURE, "PLAN_SIGNATURE_INVALID")


@pytest.mark.rule("SG02")
def test_a_trusted_key_under_the_id_of_another_trusted_key_is_refused() -> None:
    keys = TrustedKeys({"k1": TrustedKey("k1", KEY.public), "k2": TrustedKey("k2", OTHER.public)})
    assert verdict(signed(KEY, "k2"), keys).finding is Finding.BAD_SIGNATURE


@pytest.mark.rule("SG01")
@pytest.mark.parametrize("field", ["sha256", "plan_id", "plan_version"])
def test_a_signature_of_another_plan_is_refused(field: str) -> None:
    other = msgspec.structs.replace(PLAN, **{field: "cd" * 32})
    found = verdict(signed(plan=other))
    assert (found.finding, code_of(found)) == (Finding.OTHER_PLAN, "PLAN_SIGNATURE_INVALID")


@pytest.mark.rule("SG01")
def test_a_signature_of_the_bare_hash_is_not_one_of_a_plan() -> None:
    statement = signed().statement
    for message in (
        bytes.fromhex(PLAN.sha256),
        PLAN.sha256.encode(),
        canonical_json({"sha256": PLAN.sha256}),
    ):
        assert verdict(encode_signature(statement, KEY.sign(message))).finding is Finding.BAD_SIGNATURE


@pytest.mark.rule("SG01")
def test_what_is_signed_names_its_purpose_the_plan_and_the_key() -> None:
    said = json.loads(signed(expires="2027-01-01T00:00:00.000000Z").statement.message())
    assert said == {
        "podium": "plan-signature/v1",
        "planId": "release",
        "planVersion": "7",
        "sha256": "ab" * 32,
        "keyId": "k1",
        "signedAt": NOW,
        "expires": "2027-01-01T00:00:00.000000Z",
    }


@pytest.mark.rule("SG02")
def test_a_key_of_another_tenant_is_not_trusted_here() -> None:
    keys = trusted(tenants=frozenset({"other"}))
    found = verdict(signed(), keys)
    assert (found.finding, code_of(found)) == (Finding.OTHER_TENANT, "PLAN_SIGNER_UNKNOWN")
    assert verdict(signed(), keys, tenant="other").finding is Finding.VALID
    assert verdict(signed(), keys, tenant=None).finding is Finding.VALID


@pytest.mark.rule("SG03")
def test_a_key_is_valid_until_the_moment_in_which_it_expires() -> None:
    keys = trusted(expires=later(NOW, 1))
    assert verdict(signed(), keys).finding is Finding.VALID
    for seconds in (1, 2):
        found = verdict(signed(), keys, now=later(NOW, seconds))
        assert (found.finding, code_of(found)) == (Finding.KEY_EXPIRED, "PLAN_KEY_EXPIRED")


@pytest.mark.rule("SG03")
def test_a_signature_is_valid_until_the_moment_in_which_it_expires() -> None:
    one = signed(expires=later(NOW, 1))
    assert verdict(one).finding is Finding.VALID
    for seconds in (1, 2):
        found = verdict(one, now=later(NOW, seconds))
        assert (found.finding, code_of(found)) == (Finding.EXPIRED, "PLAN_SIGNATURE_EXPIRED")


def test_one_valid_signature_among_others_is_enough_and_only_it_is_named() -> None:
    verdicts = [verdict(signed(OTHER, "k2")), verdict(signed()), verdict(signed(OTHER, "k1"))]
    assert [by.key_id for by in require_valid(PLAN, verdicts)] == ["k1"]


def test_without_signatures_a_plan_is_not_signed() -> None:
    assert code_of() == "PLAN_NOT_SIGNED"


def test_of_several_the_error_is_that_of_the_signature_nearest_to_being_valid() -> None:
    expired = trusted(expires=NOW)
    assert code_of(verdict(signed(OTHER, "k2")), verdict(signed(), expired)) == "PLAN_KEY_EXPIRED"


def test_a_key_without_a_name_is_trusted_under_any() -> None:
    keys = TrustedKeys(unnamed=(TrustedKey("", OTHER.public), TrustedKey("", KEY.public)))
    assert verdict(signed(key_id="any"), keys).finding is Finding.VALID
    stranger = SigningKey(Ed25519PrivateKey.generate())
    assert verdict(signed(stranger, "any"), keys).finding is Finding.BAD_SIGNATURE


# --- files ----------------------------------------------------------------------------------------


def test_a_file_of_signatures_reads_back() -> None:
    written = [signed(), signed(OTHER, "k2", expires=later(NOW, 60))]
    assert list(parse_signatures(write_signatures(written), "f")) == written


def test_the_same_key_signs_a_plan_once_and_others_keep_their_signatures() -> None:
    first = sign_plan(PLAN, KEY, "k1", now=NOW)
    second = sign_plan(PLAN, OTHER, "k2", now=NOW, earlier=first)
    again = sign_plan(PLAN, KEY, "k1", now=later(NOW, 5), earlier=second)
    assert [one.statement.key_id for one in again] == ["k2", "k1"]
    changed = msgspec.structs.replace(PLAN, sha256="cd" * 32)
    assert [one.statement.key_id for one in sign_plan(changed, KEY, "k1", now=NOW, earlier=again)] == ["k1"]


def _with(change: dict[str, Any] | None = None, **fields: Any) -> bytes:
    one = msgspec.to_builtins(signed())
    one["statement"] = {**one["statement"], **(change or {})}
    return canonical_json([{**one, **fields}])


GOOD = write_signatures([signed()])
_TEXT = signed().signature


@pytest.mark.rule("SG04")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"{}",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 5000,
        GOOD.replace(b"{", b"{ ", 1),
        GOOD + b"\n",
        b"\n" + GOOD,
        GOOD.replace(b'"keyId":"k1"', b'"keyId":"k1","keyId":"k1"'),
        GOOD.replace(b'"keyId":"k1"', b'"keyId":"k2","keyId":"k1"'),
        GOOD.replace(b'"keyId"', b'"\\u006beyId"'),
        _with({"podium": "release-signature/v1"}),
        _with({"podium": "plan-signature/v2"}),
        _with({"extra": 1}),
        _with({"expires": None}),
        _with({"expires": "2027-01-01"}),
        _with({"signedAt": "yesterday"}),
        _with({"sha256": "AB" * 32}),
        _with({"sha256": "ab" * 31}),
        _with({"planId": "a b"}),
        _with({"keyId": ""}),
        _with({"keyId": "k" * 129}),
        _with({"keyId": 1}),
        _with(extra=1),
        _with(signature=_TEXT.rstrip("=")),
        _with(signature=_TEXT + "\n"),
        _with(signature=_TEXT.replace("=", "-")),
        # The bits that base64 leaves unused, set.
        _with(signature=_TEXT[:-3] + chr(ord(_TEXT[-3]) + 1) + "=="),
        _with(signature=base64.b64encode(b"\0" * 63).decode()),
        _with(signature=base64.b64encode(b"\0" * 65).decode()),
        _with(signature=""),
        _with(signature="ä" * 88),
        canonical_json([msgspec.to_builtins(signed())] * 17),
        b"[" + b" " * MAX_BYTES + b"]",
    ],
)
def test_a_file_that_podium_would_not_have_written_is_malformed(content: bytes) -> None:
    with pytest.raises(SignatureMalformed, match="write it with `podium sign`"):
        parse_signatures(content, "plan.sig")


@pytest.mark.rule("SG04")
def test_a_file_that_is_too_large_is_not_even_parsed() -> None:
    with pytest.raises(SignatureMalformed, match="it has 65,537 bytes; 65,536 are the most"):
        parse_signatures(b"[" + b" " * (MAX_BYTES - 1) + b"]", "plan.sig")


@pytest.mark.rule("SG04")
def test_an_empty_list_is_no_signature() -> None:
    assert parse_signatures(b"[]", "f") == ()


# --- any change is refused ------------------------------------------------------------------------

SOURCE = b"version: '2.0'\nname: release\nsteps:\n- {name: Build, command: [make, all]}\n"


def _compiled() -> bytes:
    plan = require_workflow(SOURCE, "release.yaml").plan
    assert plan is not None
    return plan_bytes(plan)


CONTENT = _compiled()


def _is_accepted(content: bytes, signatures: bytes) -> bool:
    try:
        found = read_plan_file(content, "plan.json")
        if not isinstance(found, FetchedPlan):
            return False
        require_valid(found.ref, verify_plan(found.ref, signatures, "f", trusted(), NOW))
    except PodiumError:
        return False
    return True


def _signatures() -> bytes:
    found = read_plan_file(CONTENT, "plan.json")
    assert isinstance(found, FetchedPlan)
    return write_signatures([signed(plan=found.ref, expires=later(NOW, 60))])


SIGNATURES = _signatures()


def test_the_unchanged_plan_is_accepted() -> None:
    assert _is_accepted(CONTENT, SIGNATURES)


@pytest.mark.rule("SG01")
@given(at=st.integers(0, len(CONTENT) - 1), to=st.integers(0, 255))
def test_a_plan_with_any_byte_changed_is_refused(at: int, to: int) -> None:
    changed = CONTENT[:at] + bytes([to]) + CONTENT[at + 1 :]
    assert _is_accepted(changed, SIGNATURES) == (changed == CONTENT)


@pytest.mark.rule("SG01")
@given(at=st.integers(0, len(SIGNATURES) - 1), to=st.integers(0, 255))
@example(at=len(SIGNATURES) - 1, to=ord(" "))
def test_a_statement_or_signature_with_any_byte_changed_is_refused(at: int, to: int) -> None:
    changed = SIGNATURES[:at] + bytes([to]) + SIGNATURES[at + 1 :]
    assert _is_accepted(CONTENT, changed) == (changed == SIGNATURES)


@pytest.mark.rule("SG01")
@given(at=st.integers(0, len(SIGNATURES)), put=st.binary(min_size=1, max_size=3))
def test_a_statement_or_signature_with_bytes_put_in_is_refused(at: int, put: bytes) -> None:
    changed = SIGNATURES[:at] + put + SIGNATURES[at:]
    assert not _is_accepted(CONTENT, changed)


def test_a_signature_that_was_made_malleable_is_refused() -> None:
    """S + L is the same point: a library that does not check its range accepts a second signature."""
    raw = base64.b64decode(_TEXT)
    order = 2**252 + 27742317777372353535851937790883648493
    other = raw[:32] + (int.from_bytes(raw[32:], "little") + order).to_bytes(32, "little")
    assert verdict(encode_signature(signed().statement, other)).finding is Finding.BAD_SIGNATURE


# --- keys -----------------------------------------------------------------------------------------


def test_a_public_key_reads_back_from_its_text() -> None:
    assert parse_public(public_text(KEY.public)) == KEY.public


_WEAK = [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, 2**255, 2**255 + 1]


@pytest.mark.parametrize("encoded", _WEAK)
def test_a_public_key_that_anyone_can_sign_with_is_refused(encoded: int) -> None:
    with pytest.raises(InvalidPublicKey, match="anyone"):
        parse_public(public_text(encoded.to_bytes(32, "little")))


@pytest.mark.parametrize(
    "text",
    ["", "ed25519", "ed25519:", "rsa:AAAA", "ed25519:AAAA", public_text(KEY.public) + " ", "ed25519:ä"],
)
def test_what_is_not_a_public_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidPublicKey, match="write ed25519:BASE64") as refused:
        parse_public(text)
    assert "AAAA" not in str(refused.value)


# --- statements -----------------------------------------------------------------------------------


def test_the_purpose_is_part_of_every_statement() -> None:
    assert Statement.__struct_fields__[0] == "podium"
    assert PURPOSE.encode() in signed().statement.message()


@pytest.mark.parametrize(
    "text", ["", "soon", "2027-13-01", "01.01.2027", "2027-01-01T12:00:00", "2026-11-16"]
)
def test_an_expiry_is_a_date_in_the_future(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_expiry(text, NOW)


def test_a_date_is_its_start_in_utc() -> None:
    assert parse_expiry("2027-01-01", NOW) == "2027-01-01T00:00:00.000000Z"
    assert parse_expiry("2027-01-01T01:00:00+01:00", NOW) == "2027-01-01T00:00:00.000000Z"
