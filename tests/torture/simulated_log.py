"""A log in memory with the rules of the stores.

An event is stored once, by its key; an attempt has one end; nothing starts while the run is paused, and nothing is
stored after its end.
"""

from collections.abc import Callable, Sequence
from random import Random

from podium.log.events import EventRecord, EventWrite
from podium.log.transitions import RUN_ENDS, STEP_ENDS, RunStatus, run_status_after
from podium.ports.store import AppendedEvent
from podium.stores import rules
from tests.unit.machine.hosting import IDENTITY

Key = tuple[str, int]


class RefusedWhilePaused(Exception):
    """An attempt would start while the run is paused: nothing of the append was stored."""


class RefusedAtEnd(Exception):
    """The run has ended."""


class SimulatedLog:
    """`gaps`: leave out numbers now and then."""

    def __init__(self, stored: Callable[[EventRecord], None], gaps: Random | None = None) -> None:
        self.records: list[EventRecord] = []
        self.ends: dict[Key, list[EventRecord]] = {}
        self._by_key: dict[str, EventRecord] = {}
        self._stored = stored
        self._gaps = gaps
        self._status = RunStatus.PENDING

    @property
    def head(self) -> int:
        return self.records[-1].run_seq if self.records else 0

    @property
    def is_over(self) -> bool:
        return any(record.event_type in RUN_ENDS for record in self.records[-1:])

    def append(self, writes: Sequence[EventWrite]) -> tuple[AppendedEvent, ...]:
        rules.check_writes(writes)
        rules.check_one_end(writes)
        known = rules.recorded(IDENTITY, writes, self._by_key.get, ends=True)
        fresh = rules.new_writes(writes, known)
        if fresh and self.is_over:
            raise RefusedAtEnd
        self._status = self._status_after(fresh)
        stored = rules.records_of(IDENTITY, fresh, self._next_seq() - 1, fresh[0].emitted_at if fresh else "")
        for record in stored:
            self._keep(record)
        return rules.outcome(writes, known, stored)

    def _status_after(self, fresh: Sequence[EventWrite]) -> RunStatus:
        """Counted event by event: what starts behind a RunResumed of the same append may start."""
        status = self._status
        for write in fresh:
            status = run_status_after(status, write.event_type) or status
            if write.event_type == "StepStarted" and status is RunStatus.PAUSED:
                raise RefusedWhilePaused
        return status

    def _next_seq(self) -> int:
        left_out = self._gaps.choice([0, 0, 0, 1, 3]) if self._gaps is not None else 0
        return self.head + 1 + left_out

    def _keep(self, record: EventRecord) -> None:
        self.records.append(record)
        self._by_key[record.idempotency_key] = record
        if record.event_type in STEP_ENDS:
            key = (str(record.step_id), record.logical_attempt_id)
            self.ends.setdefault(key, []).append(record)
        self._stored(record)
