"""The audit log of a tenant, and its verification."""

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from podium.errors import InvalidId
from podium.log.ids import check_id
from podium.operations.audit_keys import keys_by_id
from podium.operations.audit_times import moment_of
from podium.operations.auditing import AuditQuery, list_audit, readable_tenants, verify_store
from podium.operations.printed_lists import audit_table, page_lines
from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.problems import BadRequest
from podium.server.run_routes import AnyRequest, Limit
from podium.text import shortened
from podium.wiring.access import configured_audit_key

# The number of a record. One that was tampered with may have any.
_CURSOR: Final = re.compile(r"-?[0-9]{1,18}")


class RecordBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A record as it is, not verified. `entry`: its content, null if that cannot be read."""

    seq: int
    seal: str
    entry: dict[str, Any] | None


class RecordsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest records that match, oldest first. `cursor`: of the page with older ones, null if there are none."""

    records: tuple[RecordBody, ...]
    cursor: str | None


class VerificationBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`isSound`: no record was changed, removed, inserted or moved, and every seal could be verified."""

    is_sound: bool
    records: int
    findings: tuple[dict[str, Any], ...]
    omitted: int
    # Number of all findings, by kind.
    counts: dict[str, int]
    # The length of each, and its end.
    chains: tuple[dict[str, Any], ...]


@get(
    "/audit",
    opt=declares("audit.read", "list", "INVALID_ID", text=True),
    summary="Who did what, refusals included.",
)
async def get_audit(
    asking: Asking,
    request: AnyRequest,
    run: FromQuery[str | None] = None,
    actor: Annotated[str | None, QueryParameter(max_length=500)] = None,
    outcome: FromQuery[Literal["accepted", "rejected"] | None] = None,
    since: Annotated[
        str | None, QueryParameter(description="An age like 7d, or a moment of ISO 8601.")
    ] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, QueryParameter(description="Of the page before.")] = None,
) -> Response[RecordsBody]:
    if run is not None:
        check_id("run_id", run)
    parts = asking.parts
    after = moment_of(since, parts.clock.now()) if since is not None else None
    if since is not None and after is None:
        raise BadRequest("this is not a time", "query.since", "an age like 7d or 12h, or 2026-01-31T12:00Z")
    query = AuditQuery(
        run_id=run,
        actor=actor,
        outcome=outcome.upper() if outcome else None,
        since=after,
        before=_before(cursor) if cursor is not None else None,
        limit=limit + 1,
    )
    await readable_tenants(parts.store, parts.clock, parts.access(), asking.tenant_id)
    found = await list_audit(parts.store, asking.tenant_id, query)
    following = str(found[1].record.seq) if len(found) > limit else None
    records = tuple(
        RecordBody(
            seq=one.record.seq,
            seal=one.record.seal,
            entry=dict(one.entry) if one.entry is not None else None,
        )
        for one in found[-limit:]
    )
    body = RecordsBody(records=records, cursor=following)
    return answer(request, body, text=lambda: page_lines(audit_table(found[-limit:]), following))


def _before(cursor: str) -> int:
    if _CURSOR.fullmatch(cursor) is None:
        raise InvalidId(f"cursor {shortened(cursor)!a} is not valid: use that of the page before", "cursor")
    return int(cursor)


@get(
    "/audit/verify",
    opt=declares("audit.read", "heavy"),
    summary="Whether the record is whole, with every finding.",
)
async def verify_audit(asking: Asking, request: AnyRequest) -> Response[VerificationBody]:
    parts = asking.parts
    tenants = await readable_tenants(parts.store, parts.clock, parts.access(), asking.tenant_id)
    key = configured_audit_key()
    result = await verify_store(parts.store, tenants, keys_by_id([key] if key is not None else []))
    body = VerificationBody(
        is_sound=result.is_sound(),
        records=sum(chain.records for chain in result.chains),
        findings=tuple(msgspec.to_builtins(one) for one in result.findings),
        omitted=result.omitted,
        counts={kind.value: count for kind, count in result.counts.items()},
        chains=tuple(msgspec.to_builtins(one) for one in result.chains),
    )
    return answer(request, body)


ROUTES: Final = [get_audit, verify_audit]
