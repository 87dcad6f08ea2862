"""The audit log of a server, for `podium audit`."""

from typing import TYPE_CHECKING, Final

import msgspec

from podium.access.audit import AuditRecord
from podium.access.audit_verification import Finding, FindingKind
from podium.client import printed_calls
from podium.operations.audit_results import Verification, VerifiedChain
from podium.operations.auditing import AuditQuery, ListedRecord

if TYPE_CHECKING:
    from podium.client import Client

# Of one page.
_MAX_LIMIT: Final = 500


def remote_records(client: "Client", query: AuditQuery) -> list[ListedRecord]:
    """Of the tenant of the token."""
    tenant_id = client.me().tenant_id
    found: list[ListedRecord] = []
    cursor: str | None = None
    while True:
        call = printed_calls.audit(
            run=query.run_id,
            actor=query.actor,
            outcome=query.outcome.lower() if query.outcome is not None else None,
            since=query.since,
            limit=min(query.limit - len(found), _MAX_LIMIT),
            cursor=cursor,
        )
        page = client.ask(call)
        records = [
            ListedRecord(AuditRecord(tenant_id, one["seq"], b"", one["seal"]), one["entry"])
            for one in page["records"]
        ]
        found = [*records, *found]
        # An older server has no pages.
        cursor = page.get("cursor")
        if cursor is None or len(found) >= query.limit:
            return found


def remote_verification(client: "Client") -> Verification:
    found = client.ask(printed_calls.audit_verification())
    return Verification(
        msgspec.convert(found["chains"], list[VerifiedChain]),
        msgspec.convert(found["findings"], list[Finding]),
        msgspec.convert(found["counts"], dict[FindingKind, int]),
    )
