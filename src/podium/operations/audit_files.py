"""An audit log in a file: JSON lines that can be read and verified without Podium.

    {"format":"podium-audit-1","tenants":["acme"]}
    {"tenantId":"acme","seq":1,"content":"{...}","seal":"..."}
    {"head":{"tenantId":"acme","seq":1,"seal":"...","headSeal":"...","auditKeyId":"..."}}

`content` is a text with the canonical JSON that was sealed. The head of a chain follows its last record. A
file may be damaged or malicious: its problems are reported line by line, and never raised.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Annotated, Final

import msgspec

from podium.access.audit import AuditHead, AuditKey, AuditRecord
from podium.access.audit_verification import ChainVerifier, ExpectedRecord, Finding, FindingKind
from podium.operations.audit_results import Verification, VerifiedChain, no_chain

FORMAT: Final = "podium-audit-1"
# Several times the size of the largest record.
MAX_LINE: Final = 1 << 20

_Seq = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Line = tuple[int, bytes | None]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    tenants: list[str]


class _Record(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    tenant_id: str
    seq: _Seq
    seal: str
    content: str | None = None
    # Used for content that is not text, which Podium never writes.
    content_base64: bytes | None = None


class _HeadFields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    tenant_id: str
    seq: _Seq
    seal: str
    head_seal: str
    audit_key_id: str | None = None


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    head: _HeadFields


# --- writing --------------------------------------------------------------------------------------


def header_line(tenants: Sequence[str]) -> bytes:
    return msgspec.json.encode(_Header(FORMAT, list(tenants))) + b"\n"


def record_line(record: AuditRecord) -> bytes:
    try:
        line = _Record(record.tenant_id, record.seq, record.seal, content=record.content.decode())
    except UnicodeDecodeError:
        line = _Record(record.tenant_id, record.seq, record.seal, content_base64=record.content)
    return msgspec.json.encode(line) + b"\n"


def head_line(head: AuditHead) -> bytes:
    return msgspec.json.encode({"head": head}) + b"\n"


# --- reading --------------------------------------------------------------------------------------


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """Lines with their numbers; None for one that is too long, which is never completely in memory."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        yield number, None


def verify_lines(
    lines: Iterable[Line],
    keys: Mapping[str, AuditKey],
    tenant_id: str | None = None,
    expected: ExpectedRecord | None = None,
) -> Verification:
    """Verify all chains of a file, or that of one tenant."""
    verifying = _FileVerifier(keys, tenant_id, expected)
    for number, line in lines:
        if line is None:
            verifying.malformed(number, f"the line has more than {MAX_LINE:,} bytes")
        elif line.strip():
            verifying.add(number, line)
    return verifying.finish()


class _FileVerifier:
    def __init__(
        self, keys: Mapping[str, AuditKey], tenant_id: str | None, expected: ExpectedRecord | None
    ) -> None:
        self._keys = keys
        self._wanted = tenant_id
        self._expected = expected
        self._result = Verification()
        self._chains: dict[str, VerifiedChain] = {}
        self._verifier: ChainVerifier | None = None
        self._chain: VerifiedChain | None = None
        # The tenants in the first line; None until it was read.
        self._tenants: list[str] | None = None
        self._line = 0

    def malformed(self, number: int, text: str) -> None:
        self._line = number
        self._result.add([Finding(kind=FindingKind.MALFORMED, tenant=None, line=number, text=text)])

    def add(self, number: int, line: bytes) -> None:
        self._line = number
        try:
            parsed = _parsed(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.malformed(number, f"this is not a line of an exported audit log: {error}")
            return
        match parsed:
            case _Header():
                self._add_header(parsed)
            case _Record():
                self._add_record(parsed)
            case _Head():
                self._add_head(parsed.head)

    def _add_header(self, header: _Header) -> None:
        if header.format != FORMAT:
            self.malformed(self._line, f"the format is {header.format[:60]!r}; expected {FORMAT!r}")
        if self._line != 1:
            self.malformed(self._line, "a first line in the middle of the file: several exports in one file")
        self._tenants = header.tenants

    def _add_record(self, line: _Record) -> None:
        if not self._is_wanted(line.tenant_id):
            return
        content = line.content.encode() if line.content is not None else line.content_base64
        if content is None:
            self.malformed(self._line, "a record without `content`")
            return
        verifier = self._verifier_of(line.tenant_id)
        self._result.add(verifier.add(AuditRecord(line.tenant_id, line.seq, content, line.seal), self._line))

    def _add_head(self, fields: _HeadFields) -> None:
        if self._is_wanted(fields.tenant_id):
            self._verifier_of(fields.tenant_id)
            self._close(AuditHead(**msgspec.structs.asdict(fields)))

    def _is_wanted(self, tenant_id: str) -> bool:
        return self._wanted in (None, tenant_id)

    def _verifier_of(self, tenant_id: str) -> ChainVerifier:
        """The verifier of the current chain; a line of another tenant starts a new one."""
        if self._verifier is not None and self._chain is not None and self._chain.tenant == tenant_id:
            return self._verifier
        self._close(None)
        self._verifier = ChainVerifier(tenant_id, self._keys, self._expected)
        self._chain = VerifiedChain(tenant_id)
        if tenant_id in self._chains:
            text = "the chain of this tenant was complete before; these lines were inserted or moved"
            self._result.add(
                [Finding(kind=FindingKind.INSERTED, tenant=tenant_id, line=self._line, text=text)]
            )
        else:
            self._chains[tenant_id] = self._chain
        return self._verifier

    def _close(self, head: AuditHead | None) -> None:
        if self._verifier is not None and self._chain is not None:
            self._result.add(self._verifier.finish(head, self._line))
            self._chain.records, self._chain.head = self._verifier.records, head
        self._verifier = self._chain = None

    def finish(self) -> Verification:
        self._close(None)
        if self._tenants is None:
            text = f"the first line of an exported audit log is missing; expected one with {FORMAT!r}"
            self._result.add([Finding(kind=FindingKind.MALFORMED, tenant=None, line=1, text=text)])
        named = [name for name in self._tenants or () if self._is_wanted(name)]
        if self._wanted is not None and self._wanted not in named:
            named.append(self._wanted)
        self._result.add([no_chain(name) for name in named if name not in self._chains])
        self._result.chains = list(self._chains.values())
        return self._result


def _parsed(line: bytes) -> _Header | _Record | _Head:
    kind = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    if "head" in kind:
        return msgspec.json.decode(line, type=_Head)
    if "format" in kind:
        return msgspec.json.decode(line, type=_Header)
    return msgspec.json.decode(line, type=_Record)
