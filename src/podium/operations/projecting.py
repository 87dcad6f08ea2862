"""Keeps the summaries of all runs up to date with their logs, in the background: for lists with steps, cost
and failures.

A server starts one. Several may work on one store: an older summary never replaces a newer one. It
continues where the last one of the store has stopped; runs from before the first one are projected when listed.
"""

import asyncio
import contextlib
import logging
from typing import Final

from podium.errors import RunNotFound, StoreUnavailable
from podium.log.runs import Run
from podium.log.times import moment
from podium.ports.bus import AlertHook
from podium.ports.changes import RunChanges
from podium.ports.clock import Clock
from podium.ports.log_fields import about
from podium.ports.metrics import PROJECTION_LAG
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.alerts import Alerting, log_alert
from podium.runtime.projecting import LAG_ALERT_SECONDS, Projecting

logger = logging.getLogger(__name__)

_READER: Final = "projector"
# Limits how often a run with many events is saved to a few times a second.
_PAUSE_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 1.0
_SAVE_EVERY: Final = 5.0
# Projected together, and stored with one commit.
_TOGETHER: Final = 6
# Answers wait while runs are projected: afterwards they have the event loop for three times as long. The later
# summaries are, the shorter is that rest, and the pause between batches.
_REST: Final = 3.0
_LATE_SECONDS: Final = 0.8
# The share of the pause that is left for a batch of few runs.
_LEAST_PAUSE: Final = 0.25


class BackgroundProjector:
    """Started and stopped by its process; `lag` is its current delay."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hook: AlertHook = log_alert,
        *,
        pause: float = _PAUSE_SECONDS,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._store = store
        self._clock = clock
        self._alerting = Alerting(store, clock, hook, telemetry=telemetry)
        self._projecting = Projecting(store, clock, self._alerting, on_demand=True)
        self._pause = pause
        self._telemetry = telemetry
        self._task: asyncio.Task[None] | None = None
        self._cursor: str | None = None
        self._saved: str | None = None
        self._saved_at = 0.0
        self._started = clock.now()
        # How long the oldest event of the last batch had been in the log, in seconds.
        self.lag = 0.0

    def start(self) -> None:
        self._started = self._clock.now()
        self._task = asyncio.create_task(self._project_for_ever())

    async def stop(self) -> None:
        """What is left is projected by the next one."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            with contextlib.suppress(StoreUnavailable):
                await self._save_position()

    async def _project_for_ever(self) -> None:
        while True:
            try:
                await self._follow()
            except StoreUnavailable as error:
                logger.warning("projections wait for the store: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        self._cursor = self._cursor or await self._store.load_position(_READER)
        async for batch in self._store.changes(after=self._cursor):
            await self._project(batch)
            self._cursor = batch.cursor
            if self._clock.elapsed() - self._saved_at >= _SAVE_EVERY:
                await self._save_position()
            # Fewer than the runs of one commit: probably one busy run, or a clock that differs from the store's.
            least = _LEAST_PAUSE if len(batch.runs) < _TOGETHER else 0.0
            await asyncio.sleep(self._pause * max(least, _ease(self.lag)))

    async def _project(self, batch: RunChanges) -> None:
        lag = 0.0
        for first in range(0, len(batch.runs), _TOGETHER):
            began = self._clock.elapsed()
            runs = batch.runs[first : first + _TOGETHER]
            for done in await asyncio.gather(*map(self._project_run, runs), return_exceptions=True):
                if isinstance(done, BaseException):
                    raise done
            lag = max(lag, *map(self._age, runs))
            await asyncio.sleep(_REST * _ease(lag) * (self._clock.elapsed() - began))
        if lag > LAG_ALERT_SECONDS >= self.lag:
            self._alerting.lag_is_high(lag)
        self.lag = lag
        self._telemetry.set(PROJECTION_LAG, value=lag)

    async def _project_run(self, run: Run) -> None:
        try:
            await self._projecting.catch_up(run.identity.run_id)
        except RunNotFound:
            pass  # removed since
        except StoreUnavailable:
            raise
        except Exception:
            # One run that cannot be projected must not delay all others.
            run_id, tenant_id = run.identity.run_id, run.identity.tenant_id
            fields = about(run=run_id, tenant=tenant_id)
            logger.exception("run %s cannot be projected", run_id, extra=fields)

    def _age(self, run: Run) -> float:
        """The age of a run's newest event; time before this process started projecting does not count."""
        since = max(moment(run.updated_at), self._started)
        return max(0.0, (self._clock.now() - since).total_seconds())

    async def _save_position(self) -> None:
        if self._cursor is not None and self._cursor != self._saved:
            await self._store.save_position(_READER, self._cursor)
            self._saved, self._saved_at = self._cursor, self._clock.elapsed()


def _ease(lag: float) -> float:
    """1 while summaries are current, 0 once they are late."""
    return max(0.0, 1 - lag / _LATE_SECONDS)
