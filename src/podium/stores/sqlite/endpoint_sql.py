"""Hooks in SQL."""

from collections.abc import Callable
from typing import Any, Final

import apsw

from podium.hooks.endpoint import Endpoint, EndpointKind
from podium.log.times import Timestamp
from podium.ports.schedule_changes import PreparedRun
from podium.ports.store import CreatedRun
from podium.stores import texts
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.prepared import checked_run, create

_COLUMNS: Final = "kind, name, tenant_id, body"
_INSERT: Final = f"INSERT INTO endpoints ({_COLUMNS}) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_LIST: Final = f"SELECT {_COLUMNS} FROM endpoints WHERE kind = ? AND tenant_id = ? ORDER BY name"


def add(endpoint: Endpoint) -> Callable[[apsw.Connection], bool]:
    texts.check_endpoint(endpoint)
    row = (endpoint.kind.value, endpoint.name, endpoint.tenant_id, endpoint.body)

    def carry_out(db: apsw.Connection) -> bool:
        db.execute(_INSERT, row)
        return db.changes() > 0

    return carry_out


def replace(db: apsw.Connection, before: Endpoint, after: Endpoint) -> bool:
    replaced = "UPDATE endpoints SET body = ? WHERE kind = ? AND name = ? AND tenant_id = ? AND body = ?"
    db.execute(replaced, (after.body, before.kind.value, before.name, before.tenant_id, before.body))
    return db.changes() > 0


def remove(db: apsw.Connection, kind: EndpointKind, tenant_id: str, name: str) -> bool:
    if not texts.could_be_kept(tenant_id, name):
        return False
    removed = "DELETE FROM endpoints WHERE kind = ? AND name = ? AND tenant_id = ?"
    db.execute(removed, (kind.value, name, tenant_id))
    is_removed = db.changes() > 0
    if is_removed and kind is EndpointKind.HOOK:
        db.execute("DELETE FROM deliveries WHERE hook = ?", (name,))
    return is_removed


def has_delivery(db: apsw.Connection, hook: str, delivery_id: str) -> bool:
    if not texts.could_be_kept(hook, delivery_id):
        return False
    known = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE hook = ? AND delivery_id = ?)"
    return bool(db.execute(known, (hook, delivery_id)).get)


def accept(
    hook: str, delivery_id: str, at: Timestamp, run: PreparedRun, forget_before: Timestamp
) -> Callable[[apsw.Connection, Moment], CreatedRun | None]:
    texts.check_delivery(hook, delivery_id)
    contents = checked_run(run)

    def carry_out(db: apsw.Connection, moment: Moment) -> CreatedRun | None:
        if has_delivery(db, hook, delivery_id):
            return None
        created = create(db, moment, run, contents)
        db.execute("DELETE FROM deliveries WHERE at < ?", (forget_before,))
        db.execute("INSERT INTO deliveries (hook, delivery_id, at) VALUES (?, ?, ?)", (hook, delivery_id, at))
        return created

    return carry_out


def find(db: apsw.Connection, kind: EndpointKind, name: str) -> Endpoint | None:
    if not texts.could_be_kept(name):
        return None
    asked = f"SELECT {_COLUMNS} FROM endpoints WHERE kind = ? AND name = ?"
    row: Any = db.execute(asked, (kind.value, name)).fetchone()
    return _endpoint(row) if row is not None else None


def of_tenant(db: apsw.Connection, kind: EndpointKind, tenant_id: str) -> list[Endpoint]:
    if not texts.could_be_kept(tenant_id):
        return []
    rows: Any = db.execute(_LIST, (kind.value, tenant_id))
    return [_endpoint(row) for row in rows]


def _endpoint(row: Any) -> Endpoint:
    kind, name, tenant_id, body = row
    return Endpoint(kind=EndpointKind(kind), name=name, tenant_id=tenant_id, body=bytes(body))
