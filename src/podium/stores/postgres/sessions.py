"""Sessions and login codes in SQL."""

from typing import Final

from podium.access.sessions import (
    LoginCode,
    StoredSession,
    decode_credential,
    encode_credential,
    token_of_session,
)
from podium.log.times import Timestamp
from podium.stores.postgres.connections import Connection, Connections

# Expired rows are deleted in batches of this size, with each new one.
_MAX_REMOVED: Final = 100
_EXPIRED: Final = """
DELETE FROM {table} WHERE sha256 IN
    (SELECT sha256 FROM {table} WHERE expires_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED)
"""
# A process that removes the token waits for the new row, and removes it, too.
_TOKEN: Final = "SELECT FROM tokens WHERE token_id = %s FOR KEY SHARE"


async def _exists(connection: Connection, token_id: str) -> bool:
    return await (await connection.execute(_TOKEN, [token_id])).fetchone() is not None


class PostgresSessions:
    """The part of `PostgresStore` for sessions."""

    _connections: Connections

    async def add_session(self, session: "StoredSession", *, now: Timestamp) -> bool:
        token_id = token_of_session(session.credential)
        async with self._connections.writing() as connection:
            for table in ("sessions", "login_codes"):
                await connection.execute(_EXPIRED.format(table=table), [now, _MAX_REMOVED])
            if token_id is not None and not await _exists(connection, token_id):
                return False
            await connection.execute(
                "INSERT INTO sessions (sha256, token_id, credential, expires_at) VALUES (%b, %s, %b, %s)",
                [
                    bytes.fromhex(session.sha256),
                    token_id,
                    encode_credential(session.credential),
                    session.expires_at,
                ],
            )
        return True

    async def find_session(self, sha256: str) -> "StoredSession | None":
        sql = "SELECT credential, expires_at FROM sessions WHERE sha256 = %b"
        async with self._connections.lend() as connection:
            row = await (await connection.execute(sql, [bytes.fromhex(sha256)], binary=True)).fetchone()
        if row is None:
            return None
        return StoredSession(sha256=sha256, credential=decode_credential(row[0]), expires_at=row[1])

    async def remove_session(self, sha256: str) -> None:
        async with self._connections.writing() as connection:
            await connection.execute("DELETE FROM sessions WHERE sha256 = %b", [bytes.fromhex(sha256)])

    async def add_login_code(self, code: "LoginCode") -> bool:
        async with self._connections.writing() as connection:
            if not await _exists(connection, code.token_id):
                return False
            await connection.execute(
                "INSERT INTO login_codes (sha256, token_id, expires_at) VALUES (%b, %s, %s)",
                [bytes.fromhex(code.sha256), code.token_id, code.expires_at],
            )
        return True

    async def take_login_code(self, sha256: str) -> "LoginCode | None":
        sql = "DELETE FROM login_codes WHERE sha256 = %b RETURNING token_id, expires_at"
        async with self._connections.writing() as connection:
            row = await (await connection.execute(sql, [bytes.fromhex(sha256)])).fetchone()
        return LoginCode(sha256=sha256, token_id=row[0], expires_at=row[1]) if row is not None else None
