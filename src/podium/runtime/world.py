"""What a driver needs of the world: a store, a clock, something that carries out tasks, and those who look on."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from podium.log.events import EventRecord
from podium.machine.commands import Question, Report, RunTask
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.outages import Outages
from podium.runtime.spilling import Values
from podium.runtime.tasks.order import TaskResult

if TYPE_CHECKING:
    from podium.runtime.checkpoints import CheckpointWriter

Observer: TypeAlias = Callable[[Sequence[EventRecord]], None]
# Is also told what the machine reported when it folded these records.
StateView: TypeAlias = Callable[[Sequence[EventRecord], Sequence[Report]], None]


class Tasks(Protocol):
    """Carries out tasks. `start` returns immediately; the result is handed to `done`."""

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None: ...

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        """Ask a task to end; False if there is none."""
        ...

    async def stop_orphans(self) -> None:
        """What an earlier process of this run has left running on this host."""
        ...


class World(msgspec.Struct):
    log: Store
    clock: Clock
    tasks: Tasks
    ask: Callable[[Question], bool]
    # Called with every record once and in order, from the run's first one on, many at a time: files are made from them.
    views: list[Observer] = msgspec.field(default_factory=list)
    state_views: list[StateView] = msgspec.field(default_factory=list)
    # Puts on the disk what the views know; before a step starts that must not be repeated blindly.
    sync_views: Callable[[], None] | None = None
    # Called with every record once and in order, from now on, immediately.
    observers: list[Observer] = msgspec.field(default_factory=list)
    # What to do when the store is away; None: give up immediately.
    outages: Outages | None = None
    # Where values go that are too large for an event; made when the first one comes.
    payloads: Callable[[], Values] | None = None
    # Whether the driver looks for signals itself. If not, its host does, for all of its runs.
    watches_log: bool = True
    # Where checkpoints are saved.
    checkpoints: "CheckpointWriter | None" = None
