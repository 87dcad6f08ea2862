"""An exported audit log is verified without a store, whatever was done to the file."""

from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.access.audit import AuditHead
from podium.operations.audit_files import head_line, header_line, lines_of, record_line, verify_lines
from podium.operations.audit_results import Verification
from tests.audit_attacks import ATTACKS, KEY, Attack, Records, chain_of

KEYS = {KEY.key_id: KEY}


def exported(records: Records, head: AuditHead | None) -> list[bytes]:
    heads = [head_line(head)] if head is not None else []
    return [header_line(["acme"]), *map(record_line, records), *heads]


def verify(content: bytes) -> Verification:
    return verify_lines(lines_of(BytesIO(content)), KEYS)


def kinds(result: Verification) -> set[str]:
    return {finding.kind.value for finding in result.findings}


@pytest.mark.rule("G36")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_what_was_done_to_an_exported_file_is_found(attack: Attack) -> None:
    records, head = chain_of([KEY] * 6)
    assert verify(b"".join(exported(records, head))).is_sound()
    lines = exported(*attack.do(records, head, 3))
    result = verify(b"".join(lines))
    assert attack.kinds & kinds(result), result
    assert all(finding.line is not None and finding.line <= len(lines) for finding in result.findings)


@pytest.mark.rule("G36")
@given(data=st.data())
def test_lines_that_were_removed_repeated_or_moved_are_found(data: st.DataObject) -> None:
    lines = exported(*chain_of([KEY] * 6))
    changed = data.draw(st.lists(st.sampled_from(lines), max_size=10))
    assert verify(b"".join(changed)).is_sound() == (changed == lines)


@pytest.mark.rule("G36")
def test_an_export_that_was_cut_anywhere_is_found() -> None:
    content = b"".join(exported(*chain_of([KEY] * 3)))
    for end in range(len(content) - 1):
        assert not verify(content[:end]).is_sound(), end


@settings(max_examples=300)
@given(data=st.data())
def test_bytes_that_were_changed_anywhere_are_found(data: st.DataObject) -> None:
    """Other spaces, and other ways to write the same text, are no change: the same log is read."""
    content = b"".join(exported(*chain_of([KEY] * 3)))
    at = data.draw(st.integers(0, len(content) - 2))
    put = data.draw(st.binary(max_size=3))
    changed = content[:at] + put + content[at + 1 :]
    result = verify(changed)
    assert not result.is_sound() or changed == content or put.isspace() or not put.strip(b" \t\r\n")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "malformed"),
        (b"\n\n", "malformed"),
        (b"nonsense", "malformed"),
        (b"[" * 500_000, "malformed"),
        (b'{"a":' * 100_000, "malformed"),
        (b'{"format":"podium-audit-9","tenants":[]}\n', "malformed"),
        (
            b'{"format":"podium-audit-1","tenants":[]}\n{"format":"podium-audit-1","tenants":[]}\n',
            "malformed",
        ),
        (b'{"format":"podium-audit-1","tenants":["gone"]}\n', "missing"),
        (b'{"tenantId":"a","seq":99999999999999999999999,"seal":"","content":""}\n', "malformed"),
        (b'{"tenantId":"a","seq":-1,"seal":"","content":""}\n', "malformed"),
        (b'{"tenantId":"a","seq":1,"seal":""}\n', "malformed"),
        (b'{"tenantId":"a","seq":1,"seal":"","content":"{}","more":1}\n', "malformed"),
        (b'{"head":{"tenantId":"a","seq":9223372036854775807,"seal":"","headSeal":""}}\n', "cut-off"),
        (b'{"head":null}\n', "malformed"),
        (b'{"tenantId":"\\ud800","seq":1,"seal":"","content":"{}"}\n', "malformed"),
    ],
    ids=range(15),
)
def test_a_file_that_is_no_export_gives_findings(content: bytes, kind: str) -> None:
    assert kind in kinds(verify(content))


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_anything_can_be_verified(lines: list[bytes]) -> None:
    assert not verify(b"\n".join(lines)).is_sound()


def test_one_tenant_of_a_file_is_verified() -> None:
    acme, other = chain_of([KEY] * 2), chain_of([KEY] * 2, "other")
    del other[0][0]
    lines = [header_line(["acme", "other"]), *exported(*acme)[1:], *exported(*other)[1:]]
    numbered = list(enumerate(lines, start=1))
    assert verify_lines(numbered, KEYS, "acme").is_sound()
    assert not verify_lines(numbered, KEYS, "other").is_sound()
    assert kinds(verify_lines(numbered, KEYS, "third")) == {"missing"}
