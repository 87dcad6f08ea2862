"""Sessions and login codes in SQL."""

from typing import Any, Final

import apsw

from podium.access.sessions import (
    LoginCode,
    StoredSession,
    decode_credential,
    encode_credential,
    token_of_session,
)
from podium.log.times import Timestamp

# Expired rows are deleted in batches of this size, with each new one.
_MAX_REMOVED: Final = 100
_EXPIRED: Final = (
    "DELETE FROM {table} WHERE sha256 IN (SELECT sha256 FROM {table} WHERE expires_at <= ? LIMIT ?)"
)


def add(db: apsw.Connection, session: StoredSession, now: Timestamp) -> bool:
    for table in ("sessions", "login_codes"):
        db.execute(_EXPIRED.format(table=table), (now, _MAX_REMOVED))
    token_id = token_of_session(session.credential)
    if token_id is not None and not _exists(db, token_id):
        return False
    values = (bytes.fromhex(session.sha256), token_id, encode_credential(session.credential))
    db.execute(
        "INSERT INTO sessions (sha256, token_id, credential, expires_at) VALUES (?, ?, ?, ?)",
        (*values, session.expires_at),
    )
    return True


def find(db: apsw.Connection, sha256: str) -> StoredSession | None:
    sql = "SELECT credential, expires_at FROM sessions WHERE sha256 = ?"
    row: Any = db.execute(sql, (bytes.fromhex(sha256),)).fetchone()
    if row is None:
        return None
    return StoredSession(sha256=sha256, credential=decode_credential(row[0]), expires_at=row[1])


def remove(db: apsw.Connection, sha256: str) -> None:
    db.execute("DELETE FROM sessions WHERE sha256 = ?", (bytes.fromhex(sha256),))


def add_code(db: apsw.Connection, code: LoginCode) -> bool:
    if not _exists(db, code.token_id):
        return False
    db.execute(
        "INSERT INTO login_codes (sha256, token_id, expires_at) VALUES (?, ?, ?)",
        (bytes.fromhex(code.sha256), code.token_id, code.expires_at),
    )
    return True


def take_code(db: apsw.Connection, sha256: str) -> LoginCode | None:
    sql = "DELETE FROM login_codes WHERE sha256 = ? RETURNING token_id, expires_at"
    rows: Any = db.execute(sql, (bytes.fromhex(sha256),)).fetchall()
    return LoginCode(sha256=sha256, token_id=rows[0][0], expires_at=rows[0][1]) if rows else None


def _exists(db: apsw.Connection, token_id: str) -> bool:
    return db.execute("SELECT 1 FROM tokens WHERE token_id = ?", (token_id,)).fetchone() is not None
