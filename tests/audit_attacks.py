"""What somebody who can write the store, and does not have the key, may do to an audit log.

An attack turns the records and the head of a chain into others. `at` is a place in the chain. Attackers know the
format: they number, link and hash as well as they can.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from podium.access.audit import (
    AuditDraft,
    AuditEntry,
    AuditHead,
    AuditKey,
    AuditRecord,
    ChainEnd,
    continued,
    head_of,
    seal_of,
)
from podium.plan.canonical import canonical_json

KEY = AuditKey.of(b"a key of thirty-two bytes or more")
NOON = "2026-01-01T12:00:00.000000Z"
Records = list[AuditRecord]
Chain = tuple[Records, AuditHead | None]


class Attack(NamedTuple):
    name: str
    do: Callable[[Records, AuditHead, int], Chain]
    # One of these kinds of findings has to be reported: which one depends on the place.
    kinds: frozenset[str]


def draft(number: int, key: AuditKey | None = KEY, tenant_id: str = "acme", **fields: Any) -> AuditDraft:
    entry = AuditEntry(
        at=NOON,
        tenant_id=tenant_id,
        actor="alice",
        method="os-user",
        operation="signal.PAUSE",
        outcome="REJECTED" if number % 2 else "ACCEPTED",
        run_id=f"r{number}",
        **fields,
    )
    return AuditDraft(entry, key)


def chain_of(keys: list[AuditKey | None], tenant_id: str = "acme") -> tuple[Records, AuditHead]:
    """A chain with a record for each key."""
    records: Records = []
    head = None
    for number, key in enumerate(keys, start=1):
        newest = ChainEnd(records[-1].seq, records[-1].seal) if records else None
        added, head = continued([draft(number, key, tenant_id)], head, newest)
        records += added
    assert head is not None
    return records, head


def edited(record: AuditRecord, *, reseal: bool = False, **fields: Any) -> AuditRecord:
    """The record with other content; None removes a field. A new seal is a hash: there is no key."""
    content = {**msgspec.json.decode(record.content), **fields}
    written = canonical_json({name: value for name, value in content.items() if value is not None})
    seal = seal_of(written, None) if reseal else record.seal
    return AuditRecord(record.tenant_id, content["seq"], written, seal)


def _replaced(records: Records, at: int, *others: AuditRecord) -> Records:
    return [*records[:at], *others, *records[at + 1 :]]


def _renumbered(records: Records) -> Records:
    """Numbers, links and, where there is no key, seals as they should be."""
    fixed: Records = []
    for seq, record in enumerate(records, start=1):
        previous = fixed[-1].seal if fixed else ""
        is_keyed = b'"auditKeyId"' in record.content
        fixed.append(edited(record, reseal=not is_keyed, seq=seq, previous=previous))
    return fixed


def _moved_head(head: AuditHead, record: AuditRecord) -> AuditHead:
    return AuditHead(head.tenant_id, record.seq, record.seal, head.head_seal, head.audit_key_id)


def _swap(records: Records, at: int) -> Records:
    """Two neighbours with each other's numbers."""
    first, second = records[at - 1], records[at]
    return [
        *records[: at - 1],
        AuditRecord(second.tenant_id, first.seq, second.content, second.seal),
        AuditRecord(first.tenant_id, second.seq, first.content, first.seal),
        *records[at + 1 :],
    ]


ATTACKS = [
    Attack(
        "change a content",
        lambda r, h, at: (_replaced(r, at, edited(r[at], actor="mallory")), h),
        frozenset({"changed"}),
    ),
    Attack(
        "change a seal",
        lambda r, h, at: (_replaced(r, at, AuditRecord("acme", r[at].seq, r[at].content, "0" * 64)), h),
        frozenset({"changed"}),
    ),
    Attack(
        "change a content and hash it",
        lambda r, h, at: (_replaced(r, at, edited(r[at], reseal=True, outcome="ACCEPTED", actor="m")), h),
        frozenset({"changed"}),
    ),
    Attack(
        "change a content and say that it had no key",
        lambda r, h, at: (_replaced(r, at, edited(r[at], reseal=True, actor="m", auditKeyId=None)), h),
        frozenset({"changed"}),
    ),
    Attack(
        "change a content that is not canonical",
        lambda r, h, at: (
            _replaced(r, at, AuditRecord("acme", r[at].seq, b" " + r[at].content, r[at].seal)),
            h,
        ),
        frozenset({"malformed"}),
    ),
    Attack(
        "write nonsense",
        lambda r, h, at: (_replaced(r, at, AuditRecord("acme", r[at].seq, b"\xff{nonsense", r[at].seal)), h),
        frozenset({"malformed"}),
    ),
    Attack("delete a record", lambda r, h, at: (_replaced(r, at), h), frozenset({"missing", "cut-off"})),
    Attack(
        "delete a record and renumber the others",
        lambda r, h, at: (_renumbered(_replaced(r, at)), h),
        frozenset({"changed", "cut-off"}),
    ),
    Attack("delete the newest records", lambda r, h, at: (r[:at], h), frozenset({"cut-off"})),
    Attack(
        "delete the newest records and move the head",
        lambda r, h, at: (r[:at], _moved_head(h, r[at - 1])),
        frozenset({"changed"}),
    ),
    Attack(
        "delete the newest records and make a head without a key",
        lambda r, h, at: (r[:at], head_of(r[at - 1], None)),
        frozenset({"unkeyed"}),
    ),
    Attack("delete the head", lambda r, h, at: (r, None), frozenset({"cut-off"})),
    Attack("delete all records", lambda r, h, at: ([], h), frozenset({"cut-off"})),
    Attack(
        "insert a record",
        lambda r, h, at: (_renumbered(_replaced(r, at, edited(r[at], actor="m"), r[at])), h),
        frozenset({"changed", "inserted"}),
    ),
    Attack(
        "add a record without a key at the end",
        lambda r, h, at: (_renumbered([*r, edited(r[at], reseal=True, auditKeyId=None)])[: len(r) + 1], h),
        frozenset({"inserted", "unkeyed"}),
    ),
    Attack(
        "write the whole chain anew without a key",
        lambda r, h, at: (
            (anew := _renumbered([edited(one, auditKeyId=None) for one in r])),
            head_of(anew[-1], None),
        ),
        frozenset({"unkeyed"}),
    ),
    Attack("swap two records", lambda r, h, at: (_swap(r, at), h), frozenset({"reordered"})),
    Attack(
        "put a record of another tenant in",
        lambda r, h, at: (_replaced(r, at, _of_other_tenant(r[at], at, len(r))), h),
        frozenset({"wrong-tenant"}),
    ),
]


def _of_other_tenant(record: AuditRecord, at: int, count: int) -> AuditRecord:
    """Sealed with the key: it was copied from the chain of the other tenant."""
    other, _ = chain_of([KEY] * count, "other")
    return AuditRecord(record.tenant_id, record.seq, other[at].content, other[at].seal)
