"""The audit log: every decision about who may do what, in one chain per tenant.

A record is canonical JSON with its number, the seal of the record before it, and a seal over all of that: HMAC-SHA256
under the installation's key, or plain SHA-256 if it has none, which shows damage but no forgery. What was changed,
left out, inserted or moved breaks the chain. The head of a chain is sealed, too: records cut off at the end are missed.
"""

import hashlib
import hmac
from typing import Any, Final

import msgspec

from podium.log.times import Timestamp
from podium.plan.canonical import canonical_json

# The seal before the first record.
NO_SEAL: Final = ""


class AuditKey(msgspec.Struct, frozen=True):
    """`key_id` is the beginning of the key's SHA-256: it tells keys apart and nothing about them."""

    secret: bytes
    key_id: str

    def __repr__(self) -> str:
        return f"AuditKey({self.key_id})"

    @classmethod
    def of(cls, secret: bytes) -> "AuditKey":
        return cls(secret, hashlib.sha256(b"podium audit key|" + secret).hexdigest()[:16])


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was decided, about whom."""

    at: Timestamp
    tenant_id: str
    actor: str
    method: str
    operation: str
    # ACCEPTED or REJECTED.
    outcome: str
    code: str | None = None
    reason: str | None = None
    run_id: str | None = None
    signal_id: str | None = None
    request_sha256: str | None = None
    plan_sha256: str | None = None
    key_id: str | None = None


class AuditDraft(msgspec.Struct, frozen=True):
    """An entry on its way into a store, which gives it its place in the chain."""

    entry: AuditEntry
    key: AuditKey | None = None


class AuditRecord(msgspec.Struct, frozen=True, rename="camel"):
    """`content`: canonical JSON of the entry with `seq`, `previous` and `auditKeyId`."""

    tenant_id: str
    seq: int
    content: bytes
    seal: str


def sealed(draft: AuditDraft, previous: AuditRecord | None) -> AuditRecord:
    """The record that follows `previous`, the newest of its tenant."""
    seq = previous.seq + 1 if previous is not None else 1
    fields: dict[str, Any] = {
        **msgspec.to_builtins(draft.entry),
        "seq": seq,
        "previous": previous.seal if previous is not None else NO_SEAL,
    }
    if draft.key is not None:
        fields["auditKeyId"] = draft.key.key_id
    content = canonical_json(fields)
    return AuditRecord(draft.entry.tenant_id, seq, content, seal_of(content, draft.key))


def seal_of(content: bytes, key: AuditKey | None) -> str:
    if key is None:
        return hashlib.sha256(content).hexdigest()
    return hmac.new(key.secret, content, hashlib.sha256).hexdigest()
