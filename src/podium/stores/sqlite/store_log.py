"""Runs and their events in the store. The statements are in `appending.py`, `log.py` and `attempts.py`."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from podium.log.engines import EngineRunRef, check_engine_ref
from podium.log.events import EventRecord, EventWrite
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, WakeUp
from podium.log.runs import NewRun, Run, check_new_run
from podium.ports.changes import RunChanges
from podium.ports.store import NO_CONTENTS, AppendedEvent, CreatedRun, KeptContent, StartedAttempt
from podium.stores import rules, texts
from podium.stores.feed import position_of
from podium.stores.sqlite import contents as contents_sql
from podium.stores.sqlite import log
from podium.stores.sqlite.appending import Append, record_audit
from podium.stores.sqlite.store_base import SqliteBase
from podium.stores.sqlite.watching import EVERY_RUN

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


# Read in one batch on the event loop; longer reads let other tasks run in between.
_BATCH_SIZE: Final = 200


class SqliteLog(SqliteBase):
    async def create_run(
        self,
        new: NewRun,
        writes: Sequence[EventWrite],
        contents: Mapping[str, bytes] = NO_CONTENTS,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> CreatedRun:
        check_new_run(new)
        texts.check_texts_of_run(new)
        texts.check_contents(contents)
        texts.check_audit(audit)
        rules.check_writes(writes)
        prepared = rules.contents_of(contents)

        def change(db: apsw.Connection) -> CreatedRun:
            created, number = log.create_run(db, self._writer.moment, new, writes)
            if number is not None:
                contents_sql.keep(db, number, prepared)
                record_audit(db, audit)
            return created

        return await self._writer.write(change, touches=new.identity.run_id)

    async def append(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        *,
        fence: Fence | None = None,
        after: int | None = None,
        set_wake_ups: Sequence[WakeUp] = (),
        drop_wake_ups: Sequence[str] = (),
        audit: "Sequence[AuditDraft]" = (),
    ) -> tuple[AppendedEvent, ...]:
        append = _checked_append(run_id, writes, fence, after, set_wake_ups, drop_wake_ups, audit)
        return await self._writer.append(append)

    async def start_attempt(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        *,
        fence: Fence,
        claim: AttemptClaim,
        set_wake_ups: Sequence[WakeUp] = (),
        drop_wake_ups: Sequence[str] = (),
    ) -> StartedAttempt:
        # Imported by workers only: a run that this process drives has no attempts that others claim.
        from podium.stores.sqlite.attempts import start_attempt

        texts.check_holder(claim.owner, claim.name)
        append = _checked_append(run_id, writes, fence, None, set_wake_ups, drop_wake_ups)

        def change(db: apsw.Connection) -> StartedAttempt:
            return start_attempt(db, self._writer.moment, append, claim, self._writer.known_runs)

        return await self._writer.write(change, touches=run_id)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        records = self.query(lambda db: log.read(db, run_id, after, min(limit, _BATCH_SIZE)))
        part = records
        while len(part) == _BATCH_SIZE and len(records) < limit:
            await asyncio.sleep(0)
            last, most = records[-1].run_seq, min(limit - len(records), _BATCH_SIZE)
            part = self.query(lambda db, last=last, most=most: log.read(db, run_id, last, most))  # type: ignore[misc]
            records += part
        return records

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        return self.query(lambda db: log.find(db, run_id, rules.key_bytes(keys)))

    async def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        while True:
            # Only while it is awaited: a caller that is still processing a batch needs no monitoring.
            with self._watching.on(run_id) as changed:
                while not (records := await self.read(run_id, after=after)):
                    await changed.wait()
                    changed.clear()
            after = records[-1].run_seq
            yield records

    async def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        from podium.stores.sqlite import feed

        end = self.query(feed.end)
        position = end if after is None else position_of(after)
        is_reset, position = position > end, min(position, end)
        while True:
            runs, position = self.query(lambda db, after=position: feed.moved_runs(db, after))  # type: ignore[misc]
            yield RunChanges(tuple(runs), str(position), is_reset)
            is_reset = False
            with self._watching.on(EVERY_RUN) as changed:
                while self.query(feed.end) == position:
                    await changed.wait()
                    changed.clear()

    async def save_position(self, reader: str, cursor: str) -> None:
        from podium.stores.sqlite import feed

        texts.check_name("reader", reader)
        position = position_of(cursor)
        await self._writer.write(lambda db: feed.save_position(db, reader, position))

    async def load_position(self, reader: str) -> str | None:
        from podium.stores.sqlite import feed

        if not texts.could_be_kept(reader):
            return None
        return self.query(lambda db: feed.load_position(db, reader))

    async def get_run(self, run_id: RunId) -> Run:
        return self.query(lambda db: log.get_run(db, run_id))

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        check_engine_ref(engine, run_id)
        texts.check_engine(engine)
        await self._writer.write(lambda db: log.set_engine(db, run_id, engine, fence))

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        ids = (provider, workflow_id, provider_run_id)
        if not texts.could_be_kept(*ids):
            return None
        return self.query(lambda db: log.run_of_engine(db, ids))

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        return self.query(lambda db: log.open_runs(db, provider, after, limit))

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        texts.check_contents(contents)
        prepared = rules.contents_of(contents)
        await self._writer.write(lambda db: contents_sql.keep(db, log.number_of(db, run_id), prepared))

    async def kept(self, run_id: RunId, name: str) -> bytes:
        texts.check_name("the name of a content", name)
        return self.query(lambda db: contents_sql.read(db, run_id, name))

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        return self.query(lambda db: contents_sql.list_kept(db, run_id))


def _checked_append(
    run_id: str,
    writes: Sequence[EventWrite],
    fence: Fence | None,
    after: int | None,
    set_wake_ups: Sequence[WakeUp],
    drop_wake_ups: Sequence[str],
    audit: "Sequence[AuditDraft]" = (),
) -> Append:
    rules.check_writes(writes)
    rules.check_one_end(writes)
    if set_wake_ups:
        texts.check_wake_ups(set_wake_ups)
    if drop_wake_ups:
        drop_wake_ups = [key for key in drop_wake_ups if texts.could_be_kept(key)]
    if audit:
        texts.check_audit(audit)
    return Append(run_id, writes, fence, after, set_wake_ups, drop_wake_ups, audit)
