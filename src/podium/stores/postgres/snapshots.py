"""Summaries and steps as they were last folded: a cache that any reader may rebuild from the log."""

from collections.abc import Sequence
from typing import Final

import msgspec

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.stores import texts
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import askable

_SUMMARY: Final = msgspec.json.Decoder(RunSummary)
_STEP: Final = msgspec.json.Decoder(StepSnapshot)

# An older one changes nothing and returns no row; the row is also the lock for the steps.
_SAVE: Final = """
INSERT INTO summaries (run, last_event_seq, summary) VALUES (%s, %s, %b)
ON CONFLICT (run) DO UPDATE SET last_event_seq = excluded.last_event_seq, summary = excluded.summary
 WHERE summaries.last_event_seq <= excluded.last_event_seq
RETURNING run
"""
_SAVE_STEPS: Final = """
INSERT INTO steps (run, step_id, step) SELECT %s, * FROM unnest(%b::text[], %b::bytea[])
ON CONFLICT (run, step_id) DO UPDATE SET step = excluded.step
"""


async def _number_of(connection: Connection, run_id: str, lock: str = "") -> int:
    query = f"SELECT number FROM runs WHERE run_id = %s {lock}"
    row = await (await connection.execute(query.encode(), [run_id])).fetchone()
    if row is None:
        raise RunNotFound(run_id)
    number: int = row[0]
    return number


class PostgresSnapshots:
    """The part of `PostgresStore` for snapshots."""

    _connections: Connections

    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        texts.check_snapshot(summary, changed_steps)
        askable(run_id)
        async with self._connections.writing() as connection:
            # A lock mode that admits other savers, but not a process that prunes the run.
            number = await _number_of(connection, run_id, "FOR KEY SHARE")
            saved = await connection.execute(
                _SAVE, [number, summary.last_event_seq, msgspec.json.encode(summary)]
            )
            if await saved.fetchone() is not None and changed_steps:
                steps = {step.step_id: msgspec.json.encode(step) for step in changed_steps}
                await connection.execute(_SAVE_STEPS, [number, list(steps), list(steps.values())])

    async def load_summary(self, run_id: RunId) -> RunSummary | None:
        askable(run_id)
        async with self._connections.lend() as connection:
            number = await _number_of(connection, run_id)
            found = await connection.execute(
                "SELECT summary FROM summaries WHERE run = %s", [number], binary=True
            )
            row = await found.fetchone()
        return _SUMMARY.decode(row[0]) if row is not None else None

    async def load_summaries(self, run_ids: Sequence[RunId]) -> list[RunSummary]:
        asked = list(filter(texts.could_be_kept, run_ids))
        async with self._connections.lend() as connection:
            found = await connection.execute(
                "SELECT s.summary FROM summaries s JOIN runs r ON r.number = s.run WHERE r.run_id = ANY(%b::text[])",
                [asked],
                binary=True,
            )
            return [_SUMMARY.decode(summary) for (summary,) in await found.fetchall()]

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        texts.check_name("after", after)
        askable(run_id)
        async with self._connections.lend() as connection:
            number = await _number_of(connection, run_id)
            page = "SELECT step FROM steps WHERE run = %s AND step_id > %s ORDER BY step_id LIMIT %s"
            found = await connection.execute(page, [number, after, limit], binary=True)
            return [_STEP.decode(step) for (step,) in await found.fetchall()]

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        askable(run_id)
        async with self._connections.lend() as connection:
            number = await _number_of(connection, run_id)
            named = "SELECT step_id, step FROM steps WHERE run = %s AND step_id = ANY(%b::text[])"
            found = await connection.execute(
                named, [number, list(filter(texts.could_be_kept, step_ids))], binary=True
            )
            steps = dict(await found.fetchall())
        return [_STEP.decode(steps[step_id]) for step_id in step_ids if step_id in steps]
