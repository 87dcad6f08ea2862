"""The results of verifying an audit log."""

from collections.abc import Sequence
from typing import Final

import msgspec

from podium.access.audit import AuditHead
from podium.access.audit_verification import Finding, FindingKind

# Every line of a meaningless file is a finding.
MAX_FINDINGS: Final = 1000


class VerifiedChain(msgspec.Struct):
    tenant: str
    records: int = 0
    head: AuditHead | None = None

    @property
    def is_empty(self) -> bool:
        return not self.records and self.head is None


class Verification(msgspec.Struct):
    """What was verified, and everything that is wrong with it."""

    chains: list[VerifiedChain] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
    # By kind, including those that are not listed.
    counts: dict[FindingKind, int] = msgspec.field(default_factory=dict)

    def add(self, found: Sequence[Finding]) -> None:
        for finding in found:
            self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
            if len(self.findings) < MAX_FINDINGS:
                self.findings.append(finding)

    @property
    def omitted(self) -> int:
        return sum(self.counts.values()) - len(self.findings)

    def is_sound(self, allowed: frozenset[FindingKind] = frozenset()) -> bool:
        return self.counts.keys() <= allowed


def no_chain(tenant_id: str) -> Finding:
    """Verifying nothing must not look like success."""
    return Finding(kind=FindingKind.MISSING, tenant=tenant_id, text="this tenant has no audit records")
