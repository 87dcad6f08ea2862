"""Contents of runs in SQL: each stored once by its SHA-256, and under a name for every run that uses it."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

import apsw

from podium.errors import ContentMissing
from podium.ports.store import KeptContent
from podium.stores import rules
from podium.stores.sqlite import log

# Rows removed in one transaction; each may have megabytes.
_MAX_REMOVED: Final = 20

_FIND: Final = "SELECT number FROM contents WHERE sha256 = ?"
_ADD: Final = "INSERT INTO contents (sha256, content) VALUES (?, ?)"
_REFERRED_TO: Final = "SELECT content FROM kept_contents WHERE run = ? AND name = ?"
_REFER: Final = (
    "INSERT INTO kept_contents (run, name, content) VALUES (?, ?, ?) "
    "ON CONFLICT (run, name) DO UPDATE SET content = excluded.content"
)
_REMOVE_UNUSED: Final = (
    "DELETE FROM contents WHERE number = ? "
    "AND NOT EXISTS (SELECT 1 FROM kept_contents k WHERE k.content = contents.number)"
)
_READ: Final = (
    "SELECT c.sha256, c.content FROM kept_contents k JOIN contents c ON c.number = k.content "
    "WHERE k.run = ? AND k.name = ?"
)
_LIST: Final = (
    "SELECT k.name, c.sha256, length(c.content) FROM kept_contents k JOIN contents c ON c.number = k.content "
    "WHERE k.run = ? ORDER BY k.name"
)


def keep(db: apsw.Connection, number: int, contents: Sequence[rules.Content]) -> None:
    for one in contents:
        found = db.execute(_FIND, (one.sha256,)).fetchone()
        if found is None:
            db.execute(_ADD, (one.sha256, one.content))
            found = (db.last_insert_rowid(),)
        before = db.execute(_REFERRED_TO, (number, one.name)).fetchone()
        db.execute(_REFER, (number, one.name, found[0]))
        if before is not None and before != found:
            db.execute(_REMOVE_UNUSED, before)


def read(db: apsw.Connection, run_id: str, name: str) -> bytes:
    row = db.execute(_READ, (log.number_of(db, run_id), name)).fetchone()
    if row is None:
        raise ContentMissing(run_id, name)
    return rules.checked_content(run_id, name, *row)


def list_kept(db: apsw.Connection, run_id: str) -> list[KeptContent]:
    rows = db.execute(_LIST, (log.number_of(db, run_id),))
    return [KeptContent(name, digest.hex(), size) for name, digest, size in rows]


def remove_some(db: apsw.Connection, run: int) -> bool:
    """Remove some contents of a removed run that no other run uses; False when none are left."""
    rows = db.execute(
        "SELECT name, content FROM kept_contents WHERE run = ? LIMIT ?", (run, _MAX_REMOVED)
    ).fetchall()
    for name, content in rows:
        db.execute("DELETE FROM kept_contents WHERE run = ? AND name = ?", (run, name))
        db.execute(_REMOVE_UNUSED, (content,))
    return bool(rows)


def damaged(db: apsw.Connection) -> Iterator[str]:
    """Contents whose bytes do not match their SHA-256."""
    for digest, content in db.execute("SELECT sha256, content FROM contents"):
        if sha256(content).digest() != digest:
            yield f"content {digest.hex()} is damaged: its bytes have another SHA-256"
