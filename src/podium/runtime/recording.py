"""Records events within a time budget.

A store that hangs must not hang the work, and one that is down for a moment must not fail it. An append is repeated
by its keys until the budget is spent; then the caller is told (`StoreUnavailable`), keeps what it knows, and gives up
its lease. What was not answered is *unknown*, not failed: to repeat it is harmless. One kind of event may fail open:
StepStarted, written alone, of a step that may run twice. It is kept and recorded later; everything else is recorded
before the work goes on.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from podium.errors import StoreUnavailable
from podium.model.events import EventType, EventWrite
from podium.model.ids import RunId
from podium.model.leases import Fence, WakeUp
from podium.ports.store import AppendedEvent, EventLog
from podium.runtime.patience import Patience

WRITE_BUDGET: Final = timedelta(milliseconds=3000)
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 0.15


class Recorder:
    """Appends to a store within the budget."""

    def __init__(self, store: EventLog, *, budget: timedelta = WRITE_BUDGET) -> None:
        self._store = store
        self._budget = budget
        self._patience = Patience(budget.total_seconds())
        self._owed: list[tuple[RunId, EventWrite, Fence | None]] = []

    @property
    def owed(self) -> int:
        """How many StepStarted still have to be recorded."""
        return len(self._owed)

    async def append(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        *,
        fence: Fence | None = None,
        after: int | None = None,
        set_wake_ups: Sequence[WakeUp] = (),
        drop_wake_ups: Sequence[str] = (),
        may_fail_open: bool = False,
    ) -> tuple[AppendedEvent, ...] | None:
        """Record events. None: they failed open and will be recorded later.

        `may_fail_open` is the caller's word that the step may run twice (it is not `idempotent: false`).
        """
        reason: Exception | None = None
        pause = _FIRST_PAUSE
        try:
            with self._patience:
                while True:
                    try:
                        return await self._store.append(
                            run_id,
                            writes,
                            fence=fence,
                            after=after,
                            set_wake_ups=set_wake_ups,
                            drop_wake_ups=drop_wake_ups,
                        )
                    except StoreUnavailable as error:
                        reason = error
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, _MAX_PAUSE)
        except TimeoutError as error:
            if may_fail_open and _is_a_start_alone(writes) and not set_wake_ups:
                self._owed.append((run_id, writes[0], fence))
                return None
            raise StoreUnavailable(
                f"the store did not take {', '.join(write.event_type for write in writes)} within "
                f"{self._budget.total_seconds():g} seconds; whether it is stored is unknown, repeat it by its key"
                + (f" ({reason})" if reason else "")
            ) from error

    async def record_owed(self) -> None:
        """Record what failed open, in order; raises as `append` does and keeps what is left."""
        while self._owed:
            run_id, write, fence = self._owed[0]
            with self._patience:
                await self._store.append(run_id, [write], fence=fence)
            self._owed.pop(0)


def _is_a_start_alone(writes: Sequence[EventWrite]) -> bool:
    return len(writes) == 1 and writes[0].event_type == EventType.STEP_STARTED
