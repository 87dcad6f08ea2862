"""What a store in memory keeps of a run, and what every part of the store needs."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from podium.errors import RunNotFound
from podium.log.checkpoints import Checkpoint
from podium.log.events import EventRecord
from podium.log.runs import Run
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp
from podium.ports.clock import Clock
from podium.stores import rules

NEVER: Final = float("inf")


@dataclass
class KeptLease:
    owner: str
    generation: int = 0
    expires: float = float("-inf")


@dataclass
class KeptRun:
    """One run with everything that belongs to it."""

    number: int
    row: Run
    log: list[EventRecord] = field(default_factory=list)
    by_key: dict[str, EventRecord] = field(default_factory=dict)
    leases: dict[str, KeptLease] = field(default_factory=dict)
    wake_ups: dict[str, Timestamp] = field(default_factory=dict)
    summary: RunSummary | None = None
    steps: dict[str, StepSnapshot] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    # Of a parked run: when it is due; `rules.WOKEN` after a signal.
    wake_at: str | None = None
    # Parked: it counts toward limits.
    keeps_slot: bool = False
    # Claimed, with a limit for its key.
    has_turn: bool = False
    # SHA-256 of what is kept, by name.
    contents: dict[str, bytes] = field(default_factory=dict)

    @property
    def scopes(self) -> list[tuple[str, str, str]]:
        """Where limits may hold it back."""
        return rules.scopes(self.row.identity, self.row.concurrency_key)


class MemoryState:
    """The runs by id, and the time. Every part of the store builds on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, KeptRun] = {}
        # Set, and replaced by a new one, with every append.
        self._changed = asyncio.Event()

    def _kept(self, run_id: str) -> KeptRun:
        kept = self._runs.get(run_id)
        if kept is None:
            raise RunNotFound(run_id)
        return kept

    def _is_live(self, kept: KeptRun, attempt: str) -> bool:
        held = kept.leases.get(attempt)
        return held is not None and bool(held.owner) and held.expires > self._clock.elapsed()


def seq_of(record: EventRecord) -> int:
    return record.run_seq
