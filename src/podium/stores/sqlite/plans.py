"""Published plans in SQL. Every statement names the tenant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from podium.log.published_plans import PlanContent, PlanPage, PublishedPlan, check_published
from podium.log.times import Timestamp
from podium.stores import plan_rules, texts
from podium.stores.sqlite.appending import record_audit

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft
    from podium.stores.sqlite.store_base import SqliteBase
    from podium.stores.sqlite.writer import Writer


_COLUMNS: Final = (
    "p.tenant_id, p.plan_id, p.plan_version, p.sha256, p.schema_version, p.size_bytes, p.name, p.published_at, "
    "p.published_by, p.approved_at, p.approved_by"
)
_ADD: Final = (
    "INSERT INTO published_plans (tenant_id, plan_id, plan_version, sha256, schema_version, size_bytes, name, "
    "published_at, published_by, content, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FIND: Final = (
    f"SELECT {_COLUMNS} FROM published_plans p WHERE p.tenant_id = ?1 AND p.{{key}} = ?2 "
    "AND (?3 IS NULL OR p.plan_version = ?3) ORDER BY p.number DESC LIMIT 1"
)
_CONTENT: Final = "SELECT content, source FROM published_plans WHERE tenant_id = ? AND sha256 = ? LIMIT 1"
_NEWEST: Final = (
    f"SELECT p.number, {_COLUMNS} FROM published_plans p WHERE p.tenant_id = ?1 AND p.number < ?2 AND NOT EXISTS ("
    "SELECT 1 FROM published_plans n WHERE n.tenant_id = ?1 AND n.plan_id = p.plan_id AND n.number > p.number) "
    "ORDER BY p.number DESC LIMIT ?3"
)
_VERSIONS: Final = (
    f"SELECT p.number, {_COLUMNS} FROM published_plans p WHERE p.tenant_id = ?1 AND p.number < ?2 "
    "AND p.plan_id = ?4 ORDER BY p.number DESC LIMIT ?3"
)
_APPROVE: Final = (
    "UPDATE published_plans SET approved_at = ?, approved_by = ? "
    "WHERE tenant_id = ? AND sha256 = ? AND approved_at IS NULL"
)
_AFTER_ALL: Final = 2**63 - 1


class SqlitePlans:
    """Implements `podium.ports.published_plans.PublishedPlans`."""

    def __init__(self, store: "SqliteBase", writer: "Writer") -> None:
        self._store = store
        self._writer = writer

    async def publish(
        self, plan: PublishedPlan, content: PlanContent, *, audit: "Sequence[AuditDraft]" = ()
    ) -> PublishedPlan:
        check_published(plan)
        texts.check_audit(audit)

        def change(db: apsw.Connection) -> PublishedPlan:
            earlier = _find(db, plan.tenant_id, plan.plan_id, plan.plan_version)
            if earlier is not None:
                return plan_rules.same_plan(plan, earlier)
            db.execute(_ADD, (*_row(plan), content.content, content.source))
            record_audit(db, audit)
            return plan

        return await self._writer.write(change)

    async def find(self, tenant_id: str, plan_id: str, version: str | None = None) -> PublishedPlan | None:
        if not texts.could_be_kept(tenant_id, plan_id, version):
            return None
        return self._store.query(lambda db: _find(db, tenant_id, plan_id, version))

    async def content(self, tenant_id: str, sha256: str) -> PlanContent | None:
        if not texts.could_be_kept(tenant_id, sha256):
            return None
        row = self._store.query(lambda db: db.execute(_CONTENT, (tenant_id, sha256)).fetchone())
        return PlanContent(*row) if row is not None else None

    async def page(
        self, tenant_id: str, *, plan_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> PlanPage:
        last = texts.page_cursor(cursor)
        if not texts.could_be_kept(tenant_id, plan_id):
            return PlanPage(plans=(), cursor=None)
        asked: tuple[Any, ...] = (tenant_id, _AFTER_ALL if last is None else last, limit + 1)
        sql, asked = (_NEWEST, asked) if plan_id is None else (_VERSIONS, (*asked, plan_id))
        rows: list[Any] = await self._store.scan(lambda db: db.execute(sql, asked).fetchall())
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

        def change(db: apsw.Connection) -> bool:
            db.execute(_APPROVE, (at, by, tenant_id, sha256))
            if not db.changes():
                return False
            record_audit(db, audit)
            return True

        return texts.could_be_kept(tenant_id, sha256) and await self._writer.write(change)


def _find(db: apsw.Connection, tenant_id: str, plan_id: str, version: str | None) -> PublishedPlan | None:
    for key in ("plan_id", "sha256"):
        row = db.execute(_FIND.format(key=key), (tenant_id, plan_id, version)).fetchone()
        if row is not None:
            return _plan_of(row)
    return None


def _row(plan: PublishedPlan) -> tuple[str | int, ...]:
    return (
        plan.tenant_id,
        plan.plan_id,
        plan.plan_version,
        plan.sha256,
        plan.schema_version,
        plan.size_bytes,
        plan.name,
        plan.published_at,
        plan.published_by,
    )


def _plan_of(row: Sequence[Any]) -> PublishedPlan:
    return PublishedPlan(**dict(zip(PublishedPlan.__struct_fields__, row, strict=True)))
