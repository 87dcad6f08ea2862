"""Problems of an audit log that a store can find without a key; problems that only a key reveals are not
checked.
"""

from typing import Final

from podium.access.audit import AuditHead, AuditRecord
from podium.access.audit_verification import ChainVerifier, Finding, FindingKind

_NEEDS_A_KEY: Final = frozenset({FindingKind.UNKNOWN_KEY, FindingKind.UNKEYED})


class ChainProblems:
    """Checks numbers, links and unkeyed seals of one tenant's chain."""

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id
        self._verifier = ChainVerifier(tenant_id, {})

    def add(self, record: AuditRecord) -> list[str]:
        return self._texts(self._verifier.add(record))

    def finish(self, head: AuditHead | None) -> list[str]:
        return self._texts(self._verifier.finish(head))

    def _texts(self, found: list[Finding]) -> list[str]:
        return [self._text(finding) for finding in found if finding.kind not in _NEEDS_A_KEY]

    def _text(self, finding: Finding) -> str:
        record = f", record {finding.seq}" if finding.seq is not None else ""
        return f"audit log of tenant {self._tenant_id!r}{record}: {finding.kind}: {finding.text}"
