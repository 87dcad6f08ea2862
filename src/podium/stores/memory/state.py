"""What the memory store holds for a run, and what every part of the store needs."""

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
    """One run with all of its data."""

    number: int
    row: Run
    log: list[EventRecord] = field(default_factory=list)
    by_key: dict[str, EventRecord] = field(default_factory=dict)
    leases: dict[str, KeptLease] = field(default_factory=dict)
    wake_ups: dict[str, Timestamp] = field(default_factory=dict)
    summary: RunSummary | None = None
    steps: dict[str, StepSnapshot] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    # For a parked run: when it is due; `rules.WOKEN` after a signal.
    wake_at: str | None = None
    # Parked, so it counts toward limits.
    keeps_slot: bool = False
    # Was claimed with a limit for its key.
    has_turn: bool = False
    # SHA-256 of the stored contents, by name.
    contents: dict[str, bytes] = field(default_factory=dict)

    @property
    def scopes(self) -> list[tuple[str, str, str]]:
        """The scopes whose limits apply to it."""
        return rules.scopes(self.row.identity, self.row.concurrency_key)


class MemoryState:
    """The runs by id, and the time. All parts of the store are based on it."""

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
