"""Whatever is done to an audit log without its key, verification finds it."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.access.audit import (
    AuditHead,
    AuditKey,
    AuditRecord,
    ChainEnd,
    chain_end,
    continued,
    head_of,
    is_head_sealed,
    seal_of,
)
from podium.access.audit_verification import ChainVerifier, ExpectedRecord, Finding, verified
from tests.audit_attacks import ATTACKS, KEY, Attack, chain_of, draft, edited

OTHER = AuditKey.of(b"another key of thirty-two bytes..")
KEYS = {KEY.key_id: KEY}
BOTH = {KEY.key_id: KEY, OTHER.key_id: OTHER}


def kinds(found: list[Finding]) -> set[str]:
    return {finding.kind.value for finding in found}


@pytest.mark.rule("G36")
@given(keys=st.lists(st.sampled_from([KEY, OTHER]), min_size=1, max_size=12))
def test_a_chain_that_no_one_touched_is_sound(keys: list[AuditKey | None]) -> None:
    records, head = chain_of(keys)
    assert verified("acme", records, head, BOTH) == []


@pytest.mark.rule("G36")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@settings(max_examples=30)
@given(data=st.data())
def test_every_attack_without_the_key_is_found(attack: Attack, data: st.DataObject) -> None:
    """Also with the keys of a rotation, and records from before there was a key."""
    unkeyed = data.draw(st.integers(0, 2))
    keyed = data.draw(st.lists(st.sampled_from([KEY, KEY, OTHER]), min_size=2, max_size=8))
    records, head = chain_of([*[None] * unkeyed, *keyed])
    at = data.draw(st.integers(unkeyed + 1, len(records) - 1))
    changed, changed_head = attack.do(records, head, at)
    found = verified("acme", changed, changed_head, BOTH)
    assert attack.kinds & kinds(found), found


@pytest.mark.rule("G36")
@given(data=st.data())
def test_one_bit_anywhere_in_a_record_is_found(data: st.DataObject) -> None:
    records, head = chain_of([KEY] * 3)
    at = data.draw(st.integers(0, 2))
    content = bytearray(records[at].content)
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    records[at] = AuditRecord("acme", records[at].seq, bytes(content), records[at].seal)
    found = verified("acme", records, head, KEYS)
    # A flipped bit may hit the key's id: then the record cannot be verified, and that is said.
    assert kinds(found) & {"changed", "malformed", "unknown-key"}, found


@pytest.mark.rule("G36")
@given(order=st.permutations(range(5)))
def test_records_in_another_order_are_found(order: list[int]) -> None:
    records, head = chain_of([KEY] * 5)
    moved = [records[place] for place in order]
    found = verified("acme", moved, head, KEYS)
    assert (kinds(found) == {"reordered"}) == (order != sorted(order)), found


@given(st.lists(st.integers(1, 12), min_size=1, unique=True))
def test_each_number_that_is_missing_is_named_once(kept: list[int]) -> None:
    records, head = chain_of([KEY] * 12)
    found = verified("acme", [record for record in records if record.seq in kept], head, KEYS)
    assert kinds(found) <= {"missing", "cut-off"}
    assert bool(found) == (len(kept) < 12)


def test_a_changed_record_is_named_with_what_was_expected_and_not_with_the_seal_it_should_have() -> None:
    """That seal would make the forged record a good one."""
    records, head = chain_of([KEY] * 3)
    forged = edited(records[1], actor="mallory")
    (found,) = verified("acme", [records[0], forged, records[2]], head, KEYS)
    assert (found.kind, found.tenant, found.seq) == ("changed", "acme", 2)
    assert seal_of(forged.content, KEY) not in found.text
    assert KEY.key_id in found.text


def test_records_of_a_key_that_is_not_given_are_not_damaged_and_not_proven() -> None:
    records, head = chain_of([OTHER, OTHER, KEY, OTHER])
    found = verified("acme", records, head, KEYS)
    assert [(one.kind, one.kind.code, one.seq) for one in found] == [
        ("unknown-key", "AUDIT_NOT_VERIFIABLE", 1),
        ("unknown-key", "AUDIT_NOT_VERIFIABLE", 4),
        ("unknown-key", "AUDIT_NOT_VERIFIABLE", None),
    ]
    del records[1]
    assert "missing" in kinds(verified("acme", records, head, KEYS))


def test_records_without_a_key_behind_those_with_one_are_reported_once_for_each_stretch() -> None:
    records, head = chain_of([None, KEY, None, None, KEY, None])
    found = verified("acme", records, head, KEYS)
    assert [(one.kind, one.seq) for one in found] == [("unkeyed", 3), ("unkeyed", 6)]


def test_a_chain_without_any_key_is_sound_unless_a_key_is_given() -> None:
    records, head = chain_of([None] * 3)
    assert verified("acme", records, head, {}) == []
    assert kinds(verified("acme", records, head, KEYS)) == {"unkeyed"}


@pytest.mark.rule("G36")
def test_an_older_copy_is_found_by_the_end_that_was_kept_elsewhere() -> None:
    records, head = chain_of([KEY] * 5)
    known = ExpectedRecord(5, head.seal)
    older, older_head = chain_of([KEY] * 3)
    assert verified("acme", records, head, KEYS, known) == []
    assert verified("acme", older, older_head, KEYS) == []
    (found,) = verified("acme", older, older_head, KEYS, known)
    assert (found.kind, found.seq) == ("cut-off", 5)
    (other,) = verified("acme", records, head, KEYS, ExpectedRecord(4, "0" * 64))
    assert (other.kind, other.seq) == ("changed", 4)


# --- the format -----------------------------------------------------------------------------------


@pytest.mark.rule("G36")
def test_records_and_heads_are_sealed_as_the_page_says() -> None:
    """Computed here without Podium. Logs that were written once have to be verified for ever."""
    (first, second), head = chain_of([KEY, KEY])
    content = (
        b'{"actor":"alice","at":"2026-01-01T12:00:00.000000Z","auditKeyId":"b9b4825e69095659","method":"os-user",'
        b'"operation":"signal.PAUSE","outcome":"ACCEPTED","previous":"%s","runId":"r2","seq":2,"tenantId":"acme"}'
    ) % first.seal.encode()
    assert second.content == content
    assert second.seal == hmac.new(KEY.secret, content, "sha256").hexdigest()
    named = b'{"auditKeyId":"b9b4825e69095659","seal":"%s","seq":2,"tenant":"acme"}' % second.seal.encode()
    assert head.head_seal == hmac.new(KEY.secret, named, "sha256").hexdigest()
    assert first.seal == "f53e055d8fe459927339c2ac72bf375fc8ade714e65c1099ea0efd208b3b9827"
    assert KEY.key_id == hashlib.sha256(b"podium audit key|" + KEY.secret).hexdigest()[:16]


def test_without_a_key_records_and_heads_are_hashed() -> None:
    (only,), head = chain_of([None])
    assert only.seal == hashlib.sha256(only.content).hexdigest()
    named = b'{"seal":"%s","seq":1,"tenant":"acme"}' % only.seal.encode()
    assert head.head_seal == hashlib.sha256(named).hexdigest()
    assert b"auditKeyId" not in only.content


# --- continuing a chain that was attacked ---------------------------------------------------------


@pytest.mark.rule("G36")
@given(cut=st.integers(1, 4))
def test_a_chain_that_was_cut_and_then_continued_says_so_for_ever(cut: int) -> None:
    """Otherwise the next decision would make a correct head for the shorter chain."""
    records, head = chain_of([KEY] * 5)
    left = records[:-cut]
    forged = AuditHead("acme", left[-1].seq, left[-1].seal, "0" * 64, KEY.key_id) if left else None
    newest = ChainEnd(left[-1].seq, left[-1].seal) if left else None
    added, new_head = continued([draft(6), draft(7)], forged if left else head, newest)
    found = verified("acme", [*left, *added], new_head, KEYS)
    assert "cut-off" in kinds(found), found


@pytest.mark.parametrize(
    ("head", "newest", "end"),
    [
        (None, None, None),
        (None, ChainEnd(3, "a"), ChainEnd(3, "a", is_sound=False)),
        (AuditHead("acme", 5, "b", "", None), None, ChainEnd(5, "b", is_sound=False)),
        (AuditHead("acme", 5, "b", "", None), ChainEnd(3, "a"), ChainEnd(5, "b", is_sound=False)),
        (AuditHead("acme", 2, "b", "", None), ChainEnd(3, "a"), ChainEnd(3, "a", is_sound=False)),
        (AuditHead("acme", 2**60, "b", "", None), ChainEnd(3, "a"), ChainEnd(2**60, "b", is_sound=False)),
    ],
)
def test_a_chain_is_continued_behind_everything_that_is_there(
    head: AuditHead | None, newest: ChainEnd | None, end: ChainEnd | None
) -> None:
    assert chain_end(head, newest, KEY) == end


def test_a_chain_is_continued_with_another_key_and_without_a_trace_of_damage() -> None:
    records, head = chain_of([OTHER])
    end = chain_end(head, ChainEnd(1, records[0].seal), KEY)
    assert end == ChainEnd(1, records[0].seal)
    assert is_head_sealed(head_of(records[0], None), None)
    assert not is_head_sealed(head, KEY)


# --- hostile logs ---------------------------------------------------------------------------------

TEXTS = st.text(max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(st.tuples(NUMBERS, st.binary(max_size=80), TEXTS), max_size=6),
    st.none() | st.builds(AuditHead, TEXTS, NUMBERS, TEXTS, TEXTS, st.none() | TEXTS),
)
def test_anything_can_be_verified(rows: list[tuple[int, bytes, str]], head: AuditHead | None) -> None:
    records = [AuditRecord("acme", seq, content, seal) for seq, content, seal in rows]
    assert bool(verified("acme", records, head, KEYS)) or not records


def test_contents_that_are_json_and_no_records_are_found() -> None:
    contents = [b"[]", b"{}", b"1", b'{"seq":true}', b"[" * 100_000, b'{"seq":1e400}', b"\xed\xa0\x80"]
    for content in contents:
        found = verified("acme", [AuditRecord("acme", 1, content, "")], None, KEYS)
        assert "malformed" in kinds(found), content


def test_a_hostile_order_does_not_take_long() -> None:
    """Odd numbers first, then the even ones backwards: each fills a gap."""
    verifier = ChainVerifier("acme", KEYS)
    numbers = [*range(1, 20_000, 2), *range(20_000, 0, -2)]
    found = [one for number in numbers for one in verifier.add(AuditRecord("acme", number, b"", ""))]
    assert len(found) > len(numbers)
