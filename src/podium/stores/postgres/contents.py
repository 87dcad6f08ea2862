"""Contents of runs: each stored once by its SHA-256, and under a name for every run that uses it.

The order of locks is explained in `migrations/0003_contents.sql`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from podium.errors import ContentMissing, RunNotFound
from podium.log.ids import RunId
from podium.ports.store import KeptContent
from podium.stores import rules, texts
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import askable

_HOLD: Final = "SELECT sha256 FROM contents WHERE sha256 = ANY(%b::bytea[]) ORDER BY sha256 FOR KEY SHARE"
_ADD: Final = """
INSERT INTO contents (sha256, content) SELECT * FROM unnest(%b::bytea[], %b::bytea[]) AS c (sha256, content)
 ORDER BY sha256 ON CONFLICT DO NOTHING RETURNING sha256
"""
_REFERRED_TO: Final = "SELECT sha256 FROM kept_contents WHERE run = %s AND name = ANY(%s::text[])"
_REFER: Final = """
INSERT INTO kept_contents (run, name, sha256) SELECT %s, * FROM unnest(%s::text[], %b::bytea[])
    ON CONFLICT (run, name) DO UPDATE SET sha256 = excluded.sha256
"""
_LOCK: Final = "SELECT FROM contents WHERE sha256 = ANY(%b::bytea[]) ORDER BY sha256 FOR UPDATE"
# A separate statement, so that it sees what earlier holders of the locks have committed.
_REMOVE_UNUSED: Final = """
DELETE FROM contents c WHERE sha256 = ANY(%b::bytea[])
   AND NOT EXISTS (SELECT FROM kept_contents k WHERE k.sha256 = c.sha256)
"""
_READ: Final = """
SELECT c.sha256, c.content
  FROM runs r LEFT JOIN kept_contents k ON k.run = r.number AND k.name = %s LEFT JOIN contents c USING (sha256)
 WHERE r.run_id = %s
"""
_LIST: Final = """
SELECT k.name, c.sha256, length(c.content)
  FROM runs r LEFT JOIN kept_contents k ON k.run = r.number LEFT JOIN contents c USING (sha256)
 WHERE r.run_id = %s ORDER BY k.name
"""


async def keep_for(connection: Connection, number: int, contents: Sequence[rules.Content]) -> None:
    if not contents:
        return
    by_digest = {one.sha256: one.content for one in contents}
    names = {one.name: one.sha256 for one in contents}
    before = await connection.execute(_REFERRED_TO, [number, list(names)], binary=True)
    replaced = {digest for (digest,) in await before.fetchall()} - by_digest.keys()
    await _hold(connection, by_digest)
    await connection.execute(_REFER, [number, list(names), list(names.values())])
    await remove_unused(connection, replaced)


async def _hold(connection: Connection, wanted: Mapping[bytes, bytes]) -> None:
    """Ensure that all of them exist until the end of the transaction. One that is removed while we wait is
    added again.
    """
    missing = set(wanted)
    while missing:
        held = await connection.execute(_HOLD, [sorted(missing)], binary=True)
        missing -= {digest for (digest,) in await held.fetchall()}
        if missing:
            new = sorted(missing)
            added = await connection.execute(_ADD, [new, [wanted[digest] for digest in new]], binary=True)
            missing -= {digest for (digest,) in await added.fetchall()}


async def remove_unused(connection: Connection, digests: set[bytes]) -> None:
    """Remove those that no run uses any more."""
    if digests:
        ordered = sorted(digests)
        await connection.execute(_LOCK, [ordered])
        await connection.execute(_REMOVE_UNUSED, [ordered])


async def remove_all(connection: Connection, number: int) -> None:
    """Remove the contents of a removed run, unless other runs use them."""
    removed = "DELETE FROM kept_contents WHERE run = %s RETURNING sha256"
    found = await connection.execute(removed, [number], binary=True)
    await remove_unused(connection, {digest for (digest,) in await found.fetchall()})


class PostgresContents:
    """The part of `PostgresStore` for contents."""

    _connections: Connections

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        askable(run_id)
        texts.check_contents(contents)
        prepared = rules.contents_of(contents)
        async with self._connections.writing(self._connections.key("run", run_id)) as connection:
            # A shared lock: it prevents the removal of the run, but not appends to it.
            found = await connection.execute(
                "SELECT number FROM runs WHERE run_id = %s FOR KEY SHARE", [run_id]
            )
            row = await found.fetchone()
            if row is None:
                raise RunNotFound(run_id)
            await keep_for(connection, row[0], prepared)

    async def kept(self, run_id: RunId, name: str) -> bytes:
        askable(run_id)
        texts.check_name("the name of a content", name)
        async with self._connections.lend() as connection:
            row = await (await connection.execute(_READ, [name, run_id], binary=True)).fetchone()
        if row is None:
            raise RunNotFound(run_id)
        if row[1] is None:
            raise ContentMissing(run_id, name)
        return rules.checked_content(run_id, name, *row)

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        askable(run_id)
        async with self._connections.lend() as connection:
            rows = await (await connection.execute(_LIST, [run_id], binary=True)).fetchall()
        if not rows:
            raise RunNotFound(run_id)
        return [KeptContent(name, digest.hex(), size) for name, digest, size in rows if digest is not None]
