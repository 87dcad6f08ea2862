"""Published plans. Every statement names the tenant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from podium.log.published_plans import PlanContent, PlanPage, PublishedPlan, check_published
from podium.log.times import Timestamp
from podium.stores import plan_rules, texts
from podium.stores.postgres.connections import Connection, Connections

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

_COLUMNS: Final = """
p.tenant_id, p.plan_id, p.plan_version, p.sha256, p.schema_version, p.size_bytes, p.name, p.published_at,
p.published_by, p.approved_at, p.approved_by
"""
# If two publish the same version concurrently, the second waits, and finds the row of the first.
_ADD: Final = """
INSERT INTO published_plans (tenant_id, plan_id, plan_version, sha256, schema_version, size_bytes, name,
       published_at, published_by, content, source)
VALUES (%(tenant_id)s, %(plan_id)s, %(plan_version)s, %(sha256)s, %(schema_version)s, %(size_bytes)s, %(name)s,
       %(published_at)s, %(published_by)s, %(content)b, %(source)b)
ON CONFLICT (tenant_id, plan_id, plan_version) DO NOTHING
"""
_FIND: Final = f"""
SELECT {_COLUMNS} FROM published_plans p
 WHERE p.tenant_id = %(tenant_id)s AND p.{{key}} = %(plan_id)s
   AND (%(version)s::text IS NULL OR p.plan_version = %(version)s)
 ORDER BY p.number DESC LIMIT 1
"""
_CONTENT: Final = "SELECT content, source FROM published_plans WHERE tenant_id = %s AND sha256 = %s LIMIT 1"
_NEWEST: Final = f"""
SELECT p.number, {_COLUMNS} FROM published_plans p
 WHERE p.tenant_id = %(tenant_id)s AND p.number < %(last)s AND NOT EXISTS (
       SELECT FROM published_plans n
        WHERE n.tenant_id = %(tenant_id)s AND n.plan_id = p.plan_id AND n.number > p.number)
 ORDER BY p.number DESC LIMIT %(one_more)s
"""
_VERSIONS: Final = f"""
SELECT p.number, {_COLUMNS} FROM published_plans p
 WHERE p.tenant_id = %(tenant_id)s AND p.number < %(last)s AND p.plan_id = %(plan_id)s
 ORDER BY p.number DESC LIMIT %(one_more)s
"""
_APPROVE: Final = """
UPDATE published_plans SET approved_at = %s, approved_by = %s
 WHERE tenant_id = %s AND sha256 = %s AND approved_at IS NULL
"""
_AFTER_ALL: Final = 2**63 - 1


class PostgresPlans:
    """Implements `podium.ports.published_plans.PublishedPlans`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def publish(
        self, plan: PublishedPlan, content: PlanContent, *, audit: "Sequence[AuditDraft]" = ()
    ) -> PublishedPlan:
        check_published(plan)
        texts.check_audit(audit)
        row = {**asdict(plan), "content": content.content, "source": content.source}
        async with self._connections.writing() as connection:
            added = await connection.execute(_ADD, row)
            if not added.rowcount:
                earlier = await _find(connection, plan.tenant_id, plan.plan_id, plan.plan_version)
                assert earlier is not None
                return plan_rules.same_plan(plan, earlier)
            await self._record(connection, audit)
        return plan

    async def find(self, tenant_id: str, plan_id: str, version: str | None = None) -> PublishedPlan | None:
        if not texts.could_be_kept(tenant_id, plan_id, version):
            return None
        async with self._connections.lend() as connection:
            return await _find(connection, tenant_id, plan_id, version)

    async def content(self, tenant_id: str, sha256: str) -> PlanContent | None:
        if not texts.could_be_kept(tenant_id, sha256):
            return None
        async with self._connections.lend() as connection:
            row = await (await connection.execute(_CONTENT, [tenant_id, sha256], binary=True)).fetchone()
        return PlanContent(*row) if row is not None else None

    async def page(
        self, tenant_id: str, *, plan_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> PlanPage:
        last = texts.page_cursor(cursor)
        if not texts.could_be_kept(tenant_id, plan_id):
            return PlanPage(plans=(), cursor=None)
        asked = {
            "tenant_id": tenant_id,
            "plan_id": plan_id,
            "last": _AFTER_ALL if last is None else last,
            "one_more": limit + 1,
        }
        sql = _NEWEST if plan_id is None else _VERSIONS
        async with self._connections.lend() as connection:
            rows: list[Any] = await (await connection.execute(sql, asked)).fetchall()
        return plan_rules.page_of([(row[0], _plan_of(row[1:])) for row in rows], limit)

    async def approve(
        self,
        tenant_id: str,
        sha256: str,
        by: str,
        at: Timestamp,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> bool:
        texts.check_audit(audit)
        texts.check_name("the name of who approves", by)
        if not texts.could_be_kept(tenant_id, sha256):
            return False
        async with self._connections.writing() as connection:
            approved = await connection.execute(_APPROVE, [at, by, tenant_id, sha256])
            if not approved.rowcount:
                return False
            await self._record(connection, audit)
        return True

    async def _record(self, connection: Connection, drafts: "Sequence[AuditDraft]") -> None:
        if drafts:
            from podium.stores.postgres import audit

            await audit.record(self._connections, connection, drafts)


async def _find(
    connection: Connection, tenant_id: str, plan_id: str, version: str | None
) -> PublishedPlan | None:
    asked = {"tenant_id": tenant_id, "plan_id": plan_id, "version": version}
    for key in ("plan_id", "sha256"):
        row: Any = await (await connection.execute(_FIND.format(key=key), asked)).fetchone()
        if row is not None:
            return _plan_of(row)
    return None


def _plan_of(row: Sequence[Any]) -> PublishedPlan:
    return PublishedPlan(**dict(zip(PublishedPlan.__struct_fields__, row, strict=True)))
