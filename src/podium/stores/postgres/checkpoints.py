"""The newest checkpoint of each run."""

from typing import Final

from podium.errors import RunNotFound
from podium.log.checkpoints import Checkpoint
from podium.log.ids import RunId
from podium.stores import texts
from podium.stores.postgres.connections import Connections
from podium.stores.postgres.rows import askable

# The run's row is locked in a mode that admits other savers, but not a process that prunes the run.
_NUMBER: Final = "SELECT number FROM runs WHERE run_id = %s FOR KEY SHARE"
_SAVE: Final = """
INSERT INTO checkpoints (run, run_seq, version, rules_version, plan_sha256, sha256, body)
VALUES (%s, %s, %s, %s, %s, %b, %b)
ON CONFLICT (run) DO UPDATE SET run_seq = excluded.run_seq, version = excluded.version,
       rules_version = excluded.rules_version, plan_sha256 = excluded.plan_sha256, sha256 = excluded.sha256,
       body = excluded.body
 WHERE checkpoints.run_seq <= excluded.run_seq
"""
_LOAD: Final = """
SELECT c.run_seq, c.version, c.rules_version, c.plan_sha256, c.sha256, c.body
  FROM runs r LEFT JOIN checkpoints c ON c.run = r.number WHERE r.run_id = %s
"""


class PostgresCheckpoints:
    """The part of `PostgresStore` for checkpoints."""

    _connections: Connections

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        texts.check_checkpoint(checkpoint)
        askable(run_id)
        async with self._connections.writing() as connection:
            row = await (await connection.execute(_NUMBER, [run_id])).fetchone()
            if row is None:
                raise RunNotFound(run_id)
            values = [
                checkpoint.run_seq,
                checkpoint.version,
                checkpoint.rules_version,
                checkpoint.plan_sha256,
                checkpoint.sha256,
                checkpoint.body,
            ]
            await connection.execute(_SAVE, [row[0], *values])

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        askable(run_id)
        async with self._connections.lend() as connection:
            row = await (await connection.execute(_LOAD, [run_id], binary=True)).fetchone()
        if row is None:
            raise RunNotFound(run_id)
        return Checkpoint(*row) if row[0] is not None else None
