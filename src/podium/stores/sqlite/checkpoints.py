"""The newest checkpoint of each run in SQL."""

from typing import Final

import apsw

from podium.log.checkpoints import Checkpoint
from podium.stores.sqlite.log import number_of

_SAVE: Final = (
    "INSERT INTO checkpoints (run, run_seq, version, rules_version, plan_sha256, sha256, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET run_seq = excluded.run_seq, "
    "version = excluded.version, rules_version = excluded.rules_version, plan_sha256 = excluded.plan_sha256, "
    "sha256 = excluded.sha256, body = excluded.body WHERE checkpoints.run_seq <= excluded.run_seq"
)
_LOAD: Final = (
    "SELECT run_seq, version, rules_version, plan_sha256, sha256, body FROM checkpoints WHERE run = ?"
)


def save(db: apsw.Connection, run_id: str, one: Checkpoint) -> None:
    values = (one.run_seq, one.version, one.rules_version, one.plan_sha256, one.sha256, one.body)
    db.execute(_SAVE, (number_of(db, run_id), *values))


def load(db: apsw.Connection, run_id: str) -> Checkpoint | None:
    row = db.execute(_LOAD, (number_of(db, run_id),)).fetchone()
    return Checkpoint(*row) if row is not None else None
