"""Audit logs in real databases, as their users and their attackers see them."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import psycopg
import pytest

from podium.access.audit import AuditHead, AuditKey, AuditRecord
from podium.wiring.stores import open_store
from services.postgres import PostgresServer
from tests.acceptance.podium import Place
from tests.audit_attacks import Chain, Records, draft

COUNT = 6
_DROP_SQLITE = (
    "audit_records_stay",
    "audit_records_do_not_change",
    "audit_records_are_not_replaced",
    "audit_heads_stay",
    "audit_heads_move_on",
)


class Database(Protocol):
    """The tables of the audit log, as somebody sees them who has the rights of Podium and no key."""

    url: str

    def execute(self, sql: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]: ...

    def drop_triggers(self) -> None: ...


class SqliteFile:
    def __init__(self, path: Path) -> None:
        self.url = str(path)

    def execute(self, sql: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.url)
        with connection:
            if rows is not None:
                connection.executemany(sql, rows)
            found = connection.execute(sql).fetchall() if rows is None else []
        connection.close()
        return found

    def drop_triggers(self) -> None:
        for name in _DROP_SQLITE:
            self.execute(f"DROP TRIGGER {name}")


class PostgresDatabase:
    def __init__(self, conninfo: str, url: str) -> None:
        self._conninfo = conninfo
        self.url = url

    def execute(self, sql: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._conninfo, options="-c search_path=podium") as connection:
            if rows is not None:
                connection.cursor().executemany(sql.replace("?", "%s").encode(), rows)
                return []
            found = connection.execute(sql.encode())
            return found.fetchall() if found.description else []

    def drop_triggers(self) -> None:
        for table in ("audit_records", "audit_heads"):
            self.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield SqliteFile(tmp_path / "store.db")
        return
    server: PostgresServer = request.getfixturevalue("shared_postgres")
    name = f"audit_{uuid4().hex}"
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    parts = dict(part.split("=") for part in server.conninfo.split())
    url = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{name}"
    yield PostgresDatabase(f"{server.conninfo} dbname={name}", url)
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.run("audit", "new-key", "audit.key")
    return place


def key_of(place: Place, name: str = "audit.key") -> AuditKey:
    return AuditKey.from_text((place.folder / name).read_text().strip())


def fill(url: str, key: AuditKey | None, *, tenant: str = "acme", first: int = 0, count: int = COUNT) -> None:
    async def write() -> None:
        store = await open_store(url, create=True)
        for number in range(first, first + count):
            await store.record_audit([draft(number, key, tenant, reason=f"reason {number}")])
        await store.close()

    asyncio.run(write())


def read(database: Database, tenant: str = "acme") -> tuple[Records, AuditHead]:
    rows = database.execute(
        f"SELECT tenant_id, seq, content, seal FROM audit_records WHERE tenant_id = '{tenant}' ORDER BY seq"
    )
    (head,) = database.execute(
        f"SELECT tenant_id, seq, seal, head_seal, audit_key_id FROM audit_heads WHERE tenant_id = '{tenant}'"
    )
    records = [AuditRecord(name, seq, bytes(content), seal.hex()) for name, seq, content, seal in rows]
    return records, AuditHead(head[0], head[1], head[2].hex(), head[3].hex(), head[4])


def write(database: Database, chain: Chain) -> None:
    records, head = chain
    database.drop_triggers()
    database.execute("DELETE FROM audit_records WHERE tenant_id = 'acme'")
    database.execute("DELETE FROM audit_heads WHERE tenant_id = 'acme'")
    database.execute(
        "INSERT INTO audit_records (tenant_id, seq, content, seal) VALUES (?, ?, ?, ?)",
        [(one.tenant_id, one.seq, one.content, bytes.fromhex(one.seal)) for one in records],
    )
    if head is not None:
        seals = (bytes.fromhex(head.seal), bytes.fromhex(head.head_seal))
        database.execute(
            "INSERT INTO audit_heads (tenant_id, seq, seal, head_seal, audit_key_id) VALUES (?, ?, ?, ?, ?)",
            [(head.tenant_id, head.seq, *seals, head.audit_key_id)],
        )


def verify(place: Place, *arguments: str, code: int) -> dict[str, Any]:
    done = place.run("audit", "verify", "--json", "--key", "file:audit.key", *arguments, code=code)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["sound"] == (code == 0)
    return found


def kinds(found: dict[str, Any]) -> set[str]:
    return {finding["kind"] for finding in found["findings"]}
