"""Snapshots and wake-ups in SQL."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import apsw
import msgspec

from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp
from podium.stores.sqlite.log import number_of

_SAVE_SUMMARY: Final = (
    "INSERT INTO summaries (run, last_seq, body) VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE "
    "SET last_seq = excluded.last_seq, body = excluded.body WHERE summaries.last_seq <= excluded.last_seq"
)
_SAVE_STEP: Final = (
    "INSERT INTO steps (run, step_id, body) VALUES (?, ?, ?) "
    "ON CONFLICT (run, step_id) DO UPDATE SET body = excluded.body"
)
_encode: Final = msgspec.json.encode
# Created with the first value of a type: a process that drives a run reads none.
_decoder: Final = cache(msgspec.json.Decoder)


def save(db: apsw.Connection, run_id: str, summary: RunSummary, changed: Sequence[StepSnapshot]) -> None:
    number = number_of(db, run_id)
    db.execute(_SAVE_SUMMARY, (number, summary.last_event_seq, _encode(summary)))
    if db.changes():
        db.executemany(_SAVE_STEP, [(number, step.step_id, _encode(step)) for step in changed])


def load_summary(db: apsw.Connection, run_id: str) -> RunSummary | None:
    row = db.execute("SELECT body FROM summaries WHERE run = ?", (number_of(db, run_id),)).fetchone()
    return _decoder(RunSummary).decode(row[0]) if row is not None else None


def load_summaries(db: apsw.Connection, run_ids: Sequence[RunId]) -> list[RunSummary]:
    sql = "SELECT s.body FROM summaries s JOIN runs r ON r.number = s.run WHERE r.run_id = ?"
    rows = (db.execute(sql, (run_id,)).fetchone() for run_id in run_ids)
    decode = _decoder(RunSummary).decode
    return [decode(row[0]) for row in rows if row is not None]


def load_steps(db: apsw.Connection, run_id: str, after: str, limit: int) -> list[StepSnapshot]:
    sql = "SELECT body FROM steps WHERE run = ? AND step_id > ? ORDER BY step_id LIMIT ?"
    decode = _decoder(StepSnapshot).decode
    return [decode(body) for (body,) in db.execute(sql, (number_of(db, run_id), after, limit))]


def find_steps(db: apsw.Connection, run_id: str, step_ids: Sequence[str]) -> list[StepSnapshot]:
    number = number_of(db, run_id)
    rows = (
        db.execute("SELECT body FROM steps WHERE run = ? AND step_id = ?", (number, step_id)).fetchone()
        for step_id in step_ids
    )
    decode = _decoder(StepSnapshot).decode
    return [decode(row[0]) for row in rows if row is not None]


def due(db: apsw.Connection, before: Timestamp, limit: int, provider: str | None) -> list[WakeUp]:
    rows = db.execute(
        "SELECT r.run_id, w.key, w.due FROM wake_ups w JOIN runs r ON r.number = w.run "
        "WHERE w.due <= ?1 AND (?2 IS NULL OR r.engine_provider = ?2) "
        "ORDER BY w.due, w.key, r.run_id LIMIT ?3",
        (before, provider, limit),
    )
    return [WakeUp(run_id=RunId(run_id), key=key, due=moment) for run_id, key, moment in rows]
