"""Reads, exports and verifies the audit log of a store. None of this changes anything."""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from podium.access.audit import AuditHead, AuditKey, AuditRecord
from podium.access.audit_verification import ChainVerifier, ExpectedRecord
from podium.access.operations import READ_AUDIT
from podium.log.ids import DEFAULT_TENANT, check_id
from podium.log.times import Timestamp
from podium.operations.access import Access
from podium.operations.audit_files import head_line, header_line, record_line
from podium.operations.audit_results import Verification, VerifiedChain, no_chain
from podium.ports.clock import Clock
from podium.ports.store import AuditLog, Store

_PAGE: Final = 500
# So that records with impossible numbers are found, too.
_BEFORE_ALL: Final = -(2**63)


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str | None = None
    actor: str | None = None
    outcome: str | None = None
    since: Timestamp | None = None
    # Only records with smaller numbers: those of the page before.
    before: int | None = None
    limit: int = 50


class ListedRecord(msgspec.Struct, frozen=True):
    """A record as stored, not verified. `entry`: its content, None if it cannot be read."""

    record: AuditRecord
    entry: Mapping[str, Any] | None


async def readable_tenants(
    store: Store, clock: Clock, access: Access, tenant_id: str | None = None
) -> Sequence[str]:
    """The tenants whose chains the actor may read: the requested one, or all of them.

    Raises `InvalidId`, and `NotAllowed` or `TenantForbidden` for the requested tenant, or if none may be
    read.
    """
    if tenant_id is not None:
        check_id("tenant_id", tenant_id)
        if not _may_read(access, tenant_id):
            await access.require(store, clock, READ_AUDIT, tenant_id)
        return [tenant_id]
    tenants = await store.audit_tenants()
    readable = [tenant for tenant in tenants if _may_read(access, tenant)]
    if tenants and not readable:
        await access.require(store, clock, READ_AUDIT, DEFAULT_TENANT)
    return readable


def _may_read(access: Access, tenant_id: str) -> bool:
    """The chain for unconfigured tenants, with attempts in unknown ones, may be read by auditors of all
    others.
    """
    known = access.tenants
    asked = (tenant_id,) if known is None or tenant_id in known else known
    return all(access.decide(READ_AUDIT, tenant) is None for tenant in asked)


async def list_audit(store: AuditLog, tenant_id: str, query: AuditQuery) -> list[ListedRecord]:
    """The newest records that match, oldest first."""
    head = await store.audit_head(tenant_id)
    if head is not None and query == AuditQuery(before=query.before, limit=query.limit):
        last = head.seq if query.before is None else min(head.seq, query.before - 1)
        newest = await _matching(store, tenant_id, query, after=last - query.limit)
        # Fewer only if the chain is short, or if its head is wrong, which must not hide records.
        if len(newest) == query.limit:
            return newest
    return await _matching(store, tenant_id, query, after=_BEFORE_ALL)


async def _matching(store: AuditLog, tenant_id: str, query: AuditQuery, *, after: int) -> list[ListedRecord]:
    newest: deque[ListedRecord] = deque(maxlen=query.limit)
    async for record in _records(store, tenant_id, after):
        if query.before is not None and record.seq >= query.before:
            break
        listed = ListedRecord(record, _entry(record))
        if _matches(listed.entry, query):
            newest.append(listed)
    return list(newest)


def _entry(record: AuditRecord) -> Mapping[str, Any] | None:
    try:
        return msgspec.json.decode(record.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _matches(entry: Mapping[str, Any] | None, query: AuditQuery) -> bool:
    """What cannot be read matches everything: it is damaged, which must be noticed."""
    if entry is None:
        return True
    return (
        query.run_id in (None, entry.get("runId"))
        and query.actor in (None, entry.get("actor"))
        and query.outcome in (None, entry.get("outcome"))
        and (query.since is None or str(entry.get("at", "")) >= query.since)
    )


async def export_audit(store: AuditLog, tenants: Sequence[str]) -> AsyncIterator[bytes]:
    """The lines of a file with these chains, each followed by its head."""
    yield header_line(tenants)
    for tenant_id in tenants:
        async for one in _chain(store, tenant_id):
            if isinstance(one, AuditRecord):
                yield record_line(one)
            elif one is not None:
                yield head_line(one)


async def verify_store(
    store: AuditLog,
    tenants: Sequence[str],
    keys: Mapping[str, AuditKey],
    expected: ExpectedRecord | None = None,
) -> Verification:
    """Verify these chains while other processes may extend them."""
    result = Verification()
    for tenant_id in tenants:
        verifier = ChainVerifier(tenant_id, keys, expected)
        chain = VerifiedChain(tenant_id)
        async for one in _chain(store, tenant_id):
            if isinstance(one, AuditRecord):
                result.add(verifier.add(one))
            else:
                chain.head = one
        chain.records = verifier.records
        result.chains.append(chain)
        result.add([no_chain(tenant_id)] if chain.is_empty else verifier.finish(chain.head))
    return result


async def _chain(store: AuditLog, tenant_id: str) -> AsyncIterator[AuditRecord | AuditHead | None]:
    """Every record, then the head, if there is one.

    The head is read after the records, and records that were added until then are read, too: a concurrent
    writer never makes a chain look damaged.
    """
    last = _BEFORE_ALL
    while True:
        async for record in _records(store, tenant_id, last):
            last = record.seq
            yield record
        head = await store.audit_head(tenant_id)
        if head is None or head.seq <= last or not await store.read_audit(tenant_id, after=last, limit=1):
            yield head
            return


async def _records(store: AuditLog, tenant_id: str, after: int) -> AsyncIterator[AuditRecord]:
    while page := await store.read_audit(tenant_id, after=after, limit=_PAGE):
        for record in page:
            yield record
        after = page[-1].seq
