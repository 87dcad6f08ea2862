"""Undelivered events in the memory store."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.outbox import ALL_EVENTS, BusFilter, DeadLetter, OutboxClaim, OutboxLine
from podium.log.times import timestamp
from podium.ports.clock import Clock
from podium.stores import rules, texts
from podium.stores.memory.state import MemoryState


@dataclass
class BusLine:
    """The undelivered events of one run for one bus."""

    waiting: list[int] = field(default_factory=list)
    generation: int = 0
    held_until: float = float("-inf")
    not_before: float = float("-inf")
    failures: int = 0
    error: str = ""
    # Rises with every claim for the bus: the run whose turn was longest ago is next.
    turn: int = 0


class MemoryOutbox(MemoryState):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._buses: dict[str, dict[str, BusLine]] = {}
        self._filters: dict[str, BusFilter] = {}
        self._dead: dict[tuple[str, str, int], DeadLetter] = {}

    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        texts.check_name("bus", bus)
        if bus in self._buses:
            rules.check_filter(bus, only, self._filters[bus])
            return
        self._filters[bus] = only or ALL_EVENTS
        earlier = self._runs if from_start else {}
        self._buses[bus] = {
            run_id: BusLine(waiting=wanted)
            for run_id, kept in earlier.items()
            if (wanted := self._wanted(bus, kept.log))
        }

    def _wanted(self, bus: str, records: Sequence[EventRecord]) -> list[int]:
        wants = self._filters[bus].wants
        return [
            one.run_seq
            for one in records
            if wants(one.run.tenant_id, one.run.plan_id, one.event_type, one.payload)
        ]

    async def remove_bus(self, bus: str) -> None:
        self._buses.pop(bus, None)
        self._filters.pop(bus, None)
        self._dead = {key: dead for key, dead in self._dead.items() if key[0] != bus}

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        texts.check_holder(owner)
        now = self._clock.elapsed()
        lines = self._buses.get(bus, {})
        free = [
            (line.turn, run_id)
            for run_id, line in lines.items()
            if line.waiting and line.held_until <= now and line.not_before <= now
        ]
        if not free:
            return None
        # The first of those whose turn was longest ago; the sort is stable.
        _, run_id = min(free, key=lambda one: one[0])
        line = lines[run_id]
        line.turn = 1 + max(one.turn for one in lines.values())
        line.generation += 1
        line.held_until = now + ttl.total_seconds()
        by_seq = {record.run_seq: record for record in self._runs[run_id].log}
        return OutboxClaim(
            bus=bus,
            run_id=RunId(run_id),
            generation=line.generation,
            failures=line.failures,
            records=tuple(by_seq[seq] for seq in line.waiting[:limit]),
        )

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        line = self._held_line(claim)
        if line is None:
            return False
        line.waiting = [seq for seq in line.waiting if seq > through_seq]
        line.held_until, line.failures, line.error = float("-inf"), 0, ""
        return True

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        line = self._held_line(claim)
        if line is None or not line.waiting:
            return False
        error = texts.readable(error)
        line.held_until = float("-inf")
        line.failures += 1
        line.error = error
        if retry_in is not None:
            line.not_before = self._clock.elapsed() + retry_in.total_seconds()
            return True
        seq = line.waiting.pop(0)
        record = next(r for r in self._runs[claim.run_id].log if r.run_seq == seq)
        self._dead[claim.bus, claim.run_id, seq] = DeadLetter(
            bus=claim.bus,
            run_id=claim.run_id,
            run_seq=seq,
            event_type=record.event_type,
            failures=line.failures,
            error=error,
            died_at=timestamp(self._clock.now()),
        )
        line.failures, line.error = 0, ""
        return True

    def _held_line(self, claim: OutboxClaim) -> BusLine | None:
        line = self._buses.get(claim.bus, {}).get(claim.run_id)
        return line if line is not None and line.generation == claim.generation else None

    async def has_waiting(self, bus: str) -> bool:
        return any(line.waiting for line in self._buses.get(bus, {}).values())

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]:
        return [
            OutboxLine(
                bus=name,
                run_id=RunId(run_id),
                waiting=len(line.waiting),
                first_seq=line.waiting[0],
                failures=line.failures,
                next_at=None,
                error=line.error,
            )
            for name, lines in sorted(self._buses.items())
            for run_id, line in sorted(lines.items())
            if bus in (None, name) and line.waiting
        ]

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]:
        return [dead for key, dead in sorted(self._dead.items()) if bus in (None, key[0])]

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if self._dead.pop((bus, run_id, run_seq), None) is None:
            return False
        insort(self._buses[bus].setdefault(run_id, BusLine()).waiting, run_seq)
        return True

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        return self._dead.pop((bus, run_id, run_seq), None) is not None
