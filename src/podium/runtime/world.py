"""The environment of a driver: a store, a clock, the executor of tasks, views and observers."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from podium.log.events import EventRecord
from podium.machine.commands import Question, Report, RunTask
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.expiring import ArtifactAges
from podium.runtime.outages import Outages
from podium.runtime.spilling import Values
from podium.runtime.tasks.order import TaskResult

if TYPE_CHECKING:
    from podium.runtime.checkpoints import CheckpointWriter

Observer: TypeAlias = Callable[[Sequence[EventRecord]], None]
# Also receives what the machine reported when it folded these records.
StateView: TypeAlias = Callable[[Sequence[EventRecord], Sequence[Report]], None]


class Tasks(Protocol):
    """Executes tasks. `start` returns immediately; the result is passed to `done`."""

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None: ...

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        """Ask a task to end; False if there is none."""
        ...

    async def stop_orphans(self) -> None:
        """Stop what an earlier process of this run has left running on this host."""
        ...


class World(msgspec.Struct):
    log: Store
    clock: Clock
    tasks: Tasks
    ask: Callable[[Question], bool]
    # Called in batches with every record once and in order, from the run's first one on: files are generated
    # from them.
    views: list[Observer] = msgspec.field(default_factory=list)
    state_views: list[StateView] = msgspec.field(default_factory=list)
    # Syncs what the views have written to disk, before a step starts that must not be repeated blindly.
    sync_views: Callable[[], None] | None = None
    # Called immediately with every record from now on, once and in order.
    observers: list[Observer] = msgspec.field(default_factory=list)
    # What to do when the store is unavailable; None: give up immediately.
    outages: Outages | None = None
    # Stores values that are too large for an event; created with the first one.
    payloads: Callable[[], Values] | None = None
    # When files of steps expire, by kind.
    artifact_ages: ArtifactAges = msgspec.field(default_factory=dict)
    # Whether the driver checks for signals itself. If not, its host does, for all of its runs.
    watches_log: bool = True
    # Where checkpoints are saved.
    checkpoints: "CheckpointWriter | None" = None
