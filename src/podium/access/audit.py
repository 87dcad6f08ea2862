"""The audit log: every authorization decision, in one chain per tenant.

A record is canonical JSON with its number, the seal of the previous record, and a seal over all of that:
HMAC-SHA256 with the installation's key, or plain SHA-256 if it has none, which reveals damage but no forgery.
Records that were changed, left out, inserted or moved break the chain. The head of a chain is sealed, too, so
that truncation at the end is detected.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from podium.log.times import Timestamp
from podium.plan.canonical import NotCanonical, canonical_json

# A shorter key could be guessed.
MIN_KEY_BYTES: Final = 32
# The previous seal of the first record.
NO_SEAL: Final = ""


class AuditKey(msgspec.Struct, frozen=True):
    """`key_id` is the first part of a SHA-256 over the key: it identifies a key and reveals nothing about it."""

    secret: bytes
    key_id: str

    def __repr__(self) -> str:
        return f"AuditKey({self.key_id})"

    @classmethod
    def of(cls, secret: bytes) -> "AuditKey":
        return cls(secret, hashlib.sha256(b"podium audit key|" + secret).hexdigest()[:16])

    @classmethod
    def from_text(cls, text: str) -> "AuditKey":
        """A key from the text of its source. Raises ValueError for one that could be guessed."""
        secret = text.encode()
        if len(secret) < MIN_KEY_BYTES:
            raise ValueError(
                f"the audit key has {len(secret)} bytes and needs at least {MIN_KEY_BYTES}; "
                "`podium audit new-key FILE` makes one"
            )
        return cls.of(secret)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was decided, and about whom."""

    at: Timestamp
    tenant_id: str
    actor: str
    method: str
    operation: str
    # ACCEPTED or REJECTED.
    outcome: str
    code: str | None = None
    # For a refusal: the meaning of its code in this case.
    message: str | None = None
    # The reason given by the actor.
    reason: str | None = None
    run_id: str | None = None
    # The subject, if it is not a run: a token, a tenant.
    subject: str | None = None
    signal_id: str | None = None
    request_sha256: str | None = None
    plan_sha256: str | None = None
    # Only for a signed plan.
    signed_by: str | None = None


class AuditDraft(msgspec.Struct, frozen=True):
    """An entry to be stored; the store assigns its place in the chain."""

    entry: AuditEntry
    key: AuditKey | None = None


class AuditRecord(msgspec.Struct, frozen=True, rename="camel"):
    """`content`: canonical JSON of the entry with `seq`, `previous` and `auditKeyId`."""

    tenant_id: str
    seq: int
    content: bytes
    seal: str


class AuditHead(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The end of a chain. `head_seal` is a seal over the rest, so a shorter chain cannot get a head without
    the key.
    """

    tenant_id: str
    seq: int
    seal: str
    head_seal: str
    audit_key_id: str | None = None


class ChainEnd(msgspec.Struct, frozen=True):
    """What the next record follows. `is_sound`: the stored head was that of the newest record."""

    seq: int
    seal: str
    is_sound: bool = True


def sealed(draft: AuditDraft, previous: AuditRecord | ChainEnd | None) -> AuditRecord:
    """The record that follows `previous`, the newest of its tenant."""
    seq = previous.seq + 1 if previous is not None else 1
    fields: dict[str, Any] = {
        **msgspec.to_builtins(draft.entry),
        "seq": seq,
        "previous": previous.seal if previous is not None else NO_SEAL,
    }
    if isinstance(previous, ChainEnd) and not previous.is_sound:
        # A correct head follows now, so this is the only trace of what was done to the previous one.
        fields["afterDamage"] = True
    if draft.key is not None:
        fields["auditKeyId"] = draft.key.key_id
    content = canonical_json(fields)
    return AuditRecord(draft.entry.tenant_id, seq, content, seal_of(content, draft.key))


def seal_of(content: bytes, key: AuditKey | None) -> str:
    if key is None:
        return hashlib.sha256(content).hexdigest()
    return hmac.new(key.secret, content, hashlib.sha256).hexdigest()


def head_of(record: AuditRecord, key: AuditKey | None) -> AuditHead:
    seal = _head_seal(record.tenant_id, record.seq, record.seal, key)
    return AuditHead(record.tenant_id, record.seq, record.seal, seal, key.key_id if key is not None else None)


def is_head_sealed(head: AuditHead, key: AuditKey | None) -> bool:
    """Whether this key sealed the head; without a key, whether its SHA-256 is right."""
    try:
        expected = _head_seal(head.tenant_id, head.seq, head.seal, key)
    except NotCanonical:
        return False
    return hmac.compare_digest(expected.encode(), head.head_seal.encode(errors="replace"))


def _head_seal(tenant_id: str, seq: int, seal: str, key: AuditKey | None) -> str:
    fields: dict[str, Any] = {"tenant": tenant_id, "seq": seq, "seal": seal}
    if key is not None:
        fields["auditKeyId"] = key.key_id
    return seal_of(canonical_json(fields), key)


def chain_end(head: AuditHead | None, newest: ChainEnd | None, key: AuditKey | None) -> ChainEnd | None:
    """Where a chain with this head and this newest record is continued.

    Even if they do not match: a decision is always recorded, after all existing records.
    """
    if head is None:
        return ChainEnd(newest.seq, newest.seal, is_sound=False) if newest is not None else None
    is_newest = newest is not None and (newest.seq, newest.seal) == (head.seq, head.seal)
    key_id = key.key_id if key is not None else None
    is_checkable = head.audit_key_id in (None, key_id)
    is_sealed = not is_checkable or is_head_sealed(head, key if head.audit_key_id else None)
    last = newest if newest is not None and newest.seq > head.seq else head
    return ChainEnd(last.seq, last.seal, is_sound=is_newest and is_sealed)


def continued(
    drafts: Sequence[AuditDraft], head: AuditHead | None, newest: ChainEnd | None
) -> tuple[list[AuditRecord], AuditHead]:
    """The records of these drafts, all of one tenant, and the head of the chain that ends with them."""
    previous: AuditRecord | ChainEnd | None = chain_end(head, newest, drafts[0].key)
    records = []
    for draft in drafts:
        previous = sealed(draft, previous)
        records.append(previous)
    return records, head_of(records[-1], drafts[-1].key)


def by_tenant(drafts: Sequence[AuditDraft]) -> dict[str, list[AuditDraft]]:
    """Sorted by tenant, which is the order in which stores lock their chains."""
    found: dict[str, list[AuditDraft]] = {}
    for draft in sorted(drafts, key=lambda draft: draft.entry.tenant_id):
        found.setdefault(draft.entry.tenant_id, []).append(draft)
    return found
