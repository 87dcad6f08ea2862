"""The outbox part of the store. The statements are in `outbox.py`."""

import asyncio
from datetime import timedelta

from podium.log.ids import RunId
from podium.log.outbox import BusFilter, DeadLetter, OutboxClaim, OutboxLine
from podium.stores import rules, texts
from podium.stores.sqlite import outbox
from podium.stores.sqlite.store_base import SqliteBase


class SqliteOutbox(SqliteBase):
    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        texts.check_name("bus", bus)
        first = rules.BusState.FILLING if from_start else rules.BusState.OPEN
        while (
            state := await self._writer.write(lambda db: outbox.add_bus(db, bus, first, only))
        ) == "removing":
            await self._remove_rows(bus)
        while state == rules.BusState.FILLING and await self._writer.write(
            lambda db: outbox.fill_some(db, bus)
        ):
            await asyncio.sleep(0)

    async def remove_bus(self, bus: str) -> None:
        if texts.could_be_kept(bus):
            await self._writer.write(lambda db: outbox.remove_bus(db, bus))
            await self._remove_rows(bus)

    async def _remove_rows(self, bus: str) -> None:
        while await self._writer.write(lambda db: outbox.remove_some(db, bus)):
            await asyncio.sleep(0)

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        texts.check_holder(owner)
        if not texts.could_be_kept(bus):
            return None
        return await self._writer.write(
            lambda db: outbox.claim_line(db, self._writer.moment, bus, owner, ttl, limit)
        )

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        return await self._writer.write(lambda db: outbox.delivered(db, claim, through_seq))

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        return await self._writer.write(
            lambda db: outbox.failed(db, self._writer.moment, claim, texts.readable(error), retry_in)
        )

    async def has_waiting(self, bus: str) -> bool:
        return texts.could_be_kept(bus) and self.query(lambda db: outbox.has_waiting(db, bus))

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]:
        if not texts.could_be_kept(bus):
            return []
        return await self.scan(lambda db: outbox.lines(db, self._moments(), bus))

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]:
        if not texts.could_be_kept(bus):
            return []
        return await self.scan(lambda db: outbox.dead_letters(db, bus))

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if not texts.could_be_kept(bus, run_id):
            return False
        return await self._writer.write(lambda db: outbox.retry_dead(db, bus, run_id, run_seq))

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if not texts.could_be_kept(bus, run_id):
            return False
        return await self._writer.write(lambda db: outbox.drop_dead(db, bus, run_id, run_seq))
