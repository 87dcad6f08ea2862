"""Verifies an audit log. Records are checked one by one, so that their number is not limited.

What cannot be detected from the records, their head and the keys: that the whole log was replaced by an older
copy (unless `expected` names a later record), and, where records have no key, that all seals were computed
again.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from podium.access.audit import NO_SEAL, AuditHead, AuditKey, AuditRecord, is_head_sealed, seal_of
from podium.plan.canonical import NotCanonical, canonical_json
from podium.text import shortened

_SEAL: Final = re.compile(r"[0-9a-f]{64}")
# If there are more gaps, they are reported immediately, without waiting for records that may fill them.
_MAX_GAPS: Final = 1000


class FindingKind(StrEnum):
    CHANGED = "changed"
    MISSING = "missing"
    INSERTED = "inserted"
    REORDERED = "reordered"
    CUT_OFF = "cut-off"
    WRONG_TENANT = "wrong-tenant"
    MALFORMED = "malformed"
    # Not wrong, but not verified.
    UNKNOWN_KEY = "unknown-key"
    UNKEYED = "unkeyed"

    @property
    def code(self) -> str:
        is_damage = self not in (FindingKind.UNKNOWN_KEY, FindingKind.UNKEYED)
        return "AUDIT_DAMAGED" if is_damage else "AUDIT_NOT_VERIFIABLE"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`seq`: the record; None for the head, or if it is unreadable. `line`: in an exported file."""

    kind: FindingKind
    tenant: str | None
    seq: int | None = None
    line: int | None = None
    text: str


class ExpectedRecord(msgspec.Struct, frozen=True):
    """Known from elsewhere: the record with this number had this seal."""

    seq: int
    seal: str


class _Fields(msgspec.Struct, rename="camel"):
    """The fields of a record's content that a chain needs."""

    seq: int
    previous: str
    tenant_id: str
    audit_key_id: str | None = None
    after_damage: bool = False


class ChainVerifier:
    """Checks the chain of one tenant: `add` every record in the order in which they are found, then `finish`."""

    def __init__(
        self, tenant_id: str, keys: Mapping[str, AuditKey], expected: ExpectedRecord | None = None
    ) -> None:
        self._tenant_id = tenant_id
        self._keys = keys
        self._expected = expected
        self._last: AuditRecord | None = None
        # Ranges of numbers that were skipped; their records may still follow.
        self._gaps: list[range] = []
        self._key_seen = False
        self._unknown_key: str | None = None
        self._unkeyed_since: int | None = None
        self._is_expected_seen = expected is None
        self._line: int | None = None
        self._found: list[Finding] = []
        self.records = 0

    def add(self, record: AuditRecord, line: int | None = None) -> list[Finding]:
        self._line = line
        self.records += 1
        fields = self._read(record)
        if fields is not None:
            self._check_place(record, fields)
            self._check_seal(record, fields)
            self._check_link(record, fields)
            self._check_key(record, fields)
        self._check_order(record)
        self._check_expected(record)
        if self._last is None or record.seq > self._last.seq:
            self._last = record
        return self._taken()

    def finish(self, head: AuditHead | None, line: int | None = None) -> list[Finding]:
        self._line = line
        for gap in self._gaps:
            self._report(FindingKind.MISSING, gap.start, f"{_numbers(gap)} missing")
        if head is None:
            self._report(
                FindingKind.CUT_OFF,
                None,
                f"the head of the chain is missing; expected one for record {self._last_seq}: records after it may "
                "have been removed, too",
            )
        else:
            self._check_head(head)
        if self._expected is not None and not self._is_expected_seen:
            self._report(
                FindingKind.CUT_OFF,
                self._expected.seq,
                f"the chain ends with record {self._last_seq}; expected record {self._expected.seq} with seal "
                f"{self._expected.seal}",
            )
        return self._taken()

    @property
    def _last_seq(self) -> int:
        return self._last.seq if self._last is not None else 0

    # --- one record -------------------------------------------------------------------------------

    def _read(self, record: AuditRecord) -> _Fields | None:
        try:
            fields = msgspec.json.decode(record.content, type=_Fields)
            written: Any = canonical_json(msgspec.json.decode(record.content))
        except (msgspec.DecodeError, UnicodeDecodeError, NotCanonical, RecursionError) as error:
            self._report(FindingKind.MALFORMED, record.seq, f"its content is not that of a record: {error}")
            return None
        if written != record.content:
            self._report(
                FindingKind.MALFORMED,
                record.seq,
                "its content is not canonical JSON: Podium did not write it",
            )
        return fields

    def _check_place(self, record: AuditRecord, fields: _Fields) -> None:
        if fields.tenant_id != self._tenant_id or record.tenant_id != self._tenant_id:
            self._report(
                FindingKind.WRONG_TENANT,
                record.seq,
                f"it belongs to tenant {_shown(fields.tenant_id)}; expected {_shown(self._tenant_id)}",
            )
        if fields.seq != record.seq:
            self._report(
                FindingKind.REORDERED,
                record.seq,
                f"its content has number {fields.seq}; expected {record.seq}, its place in the chain",
            )
        if fields.after_damage:
            self._report(
                FindingKind.CUT_OFF,
                record.seq,
                "when it was written, the head of the chain was missing or did not fit: records before it may have "
                "been removed or replaced",
            )

    def _check_seal(self, record: AuditRecord, fields: _Fields) -> None:
        key_id = fields.audit_key_id
        if key_id is not None and key_id not in self._keys:
            self._report_unknown(record.seq, key_id)
            return
        self._unknown_key = None
        expected = seal_of(record.content, self._keys[key_id] if key_id is not None else None)
        if record.seal != expected:
            self._report(
                FindingKind.CHANGED,
                record.seq,
                f"its content or its seal was changed: the seal is {_shown(record.seal)}"
                f"{_expected_seal(key_id, expected)}",
            )

    def _report_unknown(self, seq: int, key_id: str) -> None:
        """One finding for each range of records."""
        if self._unknown_key != key_id:
            self._unknown_key = key_id
            self._report(FindingKind.UNKNOWN_KEY, seq, _not_given("it, and what follows, is", key_id))

    def _check_link(self, record: AuditRecord, fields: _Fields) -> None:
        """After a gap there is nothing to compare with."""
        if record.seq == 1:
            previous = NO_SEAL
        elif self._last is not None and record.seq == self._last.seq + 1:
            previous = self._last.seal
        else:
            return
        if fields.previous != previous:
            self._report(
                FindingKind.CHANGED,
                record.seq,
                f"it does not follow record {record.seq - 1}: it names the seal {_shown(fields.previous)}, "
                f"and that record has {_shown(previous)}",
            )

    def _check_key(self, record: AuditRecord, fields: _Fields) -> None:
        """One finding for each range of records without a key that follow records with one."""
        if fields.audit_key_id is not None:
            self._key_seen, self._unkeyed_since = True, None
        elif self._key_seen and self._unkeyed_since is None:
            self._unkeyed_since = record.seq
            self._report(
                FindingKind.UNKEYED,
                record.seq,
                "it has no key, and records before it have one: any user who can write the store can add such a record",
            )

    def _check_order(self, record: AuditRecord) -> None:
        expected = self._last_seq + 1
        if record.seq > expected:
            self._gaps.append(range(expected, record.seq))
            if len(self._gaps) > _MAX_GAPS:
                gap = self._gaps.pop(0)
                self._report(FindingKind.MISSING, gap.start, f"{_numbers(gap)} missing")
        elif record.seq < expected:
            found = next((gap for gap in self._gaps if record.seq in gap), None)
            if found is None:
                self._report(
                    FindingKind.INSERTED,
                    record.seq,
                    f"a record with this number was there before; expected record {expected}",
                )
            else:
                self._fill(found, record.seq)
                self._report(
                    FindingKind.REORDERED,
                    record.seq,
                    f"it follows record {expected - 1}; expected record {expected}",
                )

    def _fill(self, gap: range, seq: int) -> None:
        place = self._gaps.index(gap)
        parts = [range(gap.start, seq), range(seq + 1, gap.stop)]
        self._gaps[place : place + 1] = [part for part in parts if part]

    def _check_expected(self, record: AuditRecord) -> None:
        if self._expected is not None and record.seq == self._expected.seq:
            self._is_expected_seen = True
            if record.seal != self._expected.seal:
                self._report(
                    FindingKind.CHANGED,
                    record.seq,
                    f"its seal is {_shown(record.seal)}; expected {_shown(self._expected.seal)}, as given",
                )

    # --- the head ---------------------------------------------------------------------------------

    def _check_head(self, head: AuditHead) -> None:
        if head.tenant_id != self._tenant_id:
            self._report(
                FindingKind.WRONG_TENANT,
                None,
                f"the head belongs to tenant {_shown(head.tenant_id)}; expected {_shown(self._tenant_id)}",
            )
        if head.seq > self._last_seq:
            cut = range(self._last_seq + 1, head.seq + 1)
            self._report(FindingKind.CUT_OFF, cut.start, f"{_numbers(cut)} missing at the end of the chain")
        elif head.seq < self._last_seq:
            added = range(head.seq + 1, self._last_seq + 1)
            self._report(
                FindingKind.INSERTED,
                added.start,
                f"the head names record {head.seq} as the last one; {_numbers(added)} behind it",
            )
        elif self._last is not None and head.seal != self._last.seal:
            self._report(
                FindingKind.CHANGED,
                None,
                f"the head names the seal {_shown(head.seal)}, and the last record has {_shown(self._last.seal)}",
            )
        self._check_head_seal(head)

    def _check_head_seal(self, head: AuditHead) -> None:
        key_id = head.audit_key_id
        if key_id is not None and key_id not in self._keys:
            self._report(FindingKind.UNKNOWN_KEY, None, _not_given("the head is", key_id))
        elif not is_head_sealed(head, self._keys[key_id] if key_id is not None else None):
            self._report(
                FindingKind.CHANGED,
                None,
                "the head was changed: its seal does not fit; records may have been removed",
            )
        if key_id is None and self._keys and self._unkeyed_since is None:
            self._report(
                FindingKind.UNKEYED,
                None,
                "the head has no key, so records without one can be removed or added without a trace",
            )

    # --- findings ---------------------------------------------------------------------------------

    def _report(self, kind: FindingKind, seq: int | None, text: str) -> None:
        self._found.append(Finding(kind=kind, tenant=self._tenant_id, seq=seq, line=self._line, text=text))

    def _taken(self) -> list[Finding]:
        found, self._found = self._found, []
        return found


def verified(
    tenant_id: str,
    records: list[AuditRecord],
    head: AuditHead | None,
    keys: Mapping[str, AuditKey],
    expected: ExpectedRecord | None = None,
) -> list[Finding]:
    """Everything that is wrong with a chain that fits into memory."""
    verifier = ChainVerifier(tenant_id, keys, expected)
    found = [finding for record in records for finding in verifier.add(record)]
    return found + verifier.finish(head)


def is_seal(text: str) -> bool:
    return _SEAL.fullmatch(text) is not None


def _not_given(what: str, key_id: str) -> str:
    return (
        f"{what} is sealed with key {_shown(key_id)}, which was not given; give it with --key to verify this"
    )


def _expected_seal(key_id: str | None, expected: str) -> str:
    # Never a seal made with the key, because it would make a changed record valid.
    return (
        f"; expected {_shown(expected)}" if key_id is None else f", which key {_shown(key_id)} did not make"
    )


def _shown(text: str) -> str:
    return repr(shortened(text, 70))


def _numbers(seqs: range) -> str:
    # Not len(): a number from a malicious file may be too large for it.
    if seqs.stop == seqs.start + 1:
        return f"record {seqs.start} is"
    return f"records {seqs.start} to {seqs.stop - 1} are"
