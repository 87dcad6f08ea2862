"""Records events within a time budget.

A store that hangs must not block the work, and one that is briefly unavailable must not fail it. An append is
retried by its keys until the budget is spent; then `StoreUnavailable` is raised, and the caller keeps what it
knows and gives up its lease. An unanswered append is *unknown*, not failed: repeating it is harmless. Nothing
fails open: even a StepStarted is recorded before its step starts.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from podium.errors import StoreUnavailable
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence, WakeUp
from podium.ports.store import AppendedEvent, EventLog
from podium.runtime.shared_timeout import Patience

WRITE_BUDGET: Final = timedelta(milliseconds=3000)
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 0.15


class Recorder:
    """Appends to a store within the budget."""

    def __init__(self, store: EventLog, *, budget: timedelta = WRITE_BUDGET) -> None:
        self._store = store
        self._budget = budget
        self._patience = Patience(budget.total_seconds())

    async def append(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        *,
        fence: Fence | None = None,
        after: int | None = None,
        set_wake_ups: Sequence[WakeUp] = (),
        drop_wake_ups: Sequence[str] = (),
    ) -> tuple[AppendedEvent, ...]:
        """Record events; raises `StoreUnavailable` when the budget is spent. If a record differs from the
        event that was written, an alert is raised.
        """
        appended = await self._append(run_id, writes, fence, after, set_wake_ups, drop_wake_ups)
        if any(one.differs for one in appended):
            from podium.runtime.differing import alert_about_differences

            await alert_about_differences(self._store, writes, appended)
        return appended

    async def _append(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        fence: Fence | None,
        after: int | None,
        set_wake_ups: Sequence[WakeUp],
        drop_wake_ups: Sequence[str],
    ) -> tuple[AppendedEvent, ...]:
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
            raise StoreUnavailable(
                f"writing {', '.join(write.event_type for write in writes)} timed out after "
                f"{self._budget.total_seconds():g} seconds; it may be stored or not. Repeating it is safe: it has a key"
                + (f" ({reason})" if reason else "")
            ) from error
