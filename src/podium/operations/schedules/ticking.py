"""The ticker: checks schedules that are due and starts their runs. Any number of them may work on one store.

`podium.schedules.deciding` decides, and each decision is stored in one transaction with the run that results
from it. If another ticker was faster, nothing is stored; if a ticker dies, either a whole step or none of it
is stored.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4
from zoneinfo import ZoneInfoNotFoundError

from podium.errors import PodiumError, RunNotFound, StoreUnavailable
from podium.log.alerts import Alert, AlertCode
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL
from podium.operations.parts import Parts
from podium.operations.schedules.starting import ScheduledRuns, access_of
from podium.operations.signal_refusals import RunIsOver
from podium.operations.signals import send_signal
from podium.ports.log_fields import logging_about
from podium.ports.schedule_changes import ChangedSchedule, DueAfter
from podium.runtime.alerts import Alerting
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.runtime.unforeseen import describe_without_values
from podium.schedules.deciding import Step, failed_step, next_step, runs_to_cancel
from podium.schedules.schedule import ALWAYS, Cron, Schedule, Tick, TickOutcome
from podium.text import visible, without_credentials

_PAUSE_SECONDS: Final = 1.0
# While a schedule waits for the end of a run.
_WAITING_SECONDS: Final = 0.2
_PAGE: Final = 100
# Limit for one schedule, before others have their turn.
_MAX_STEPS: Final = 100
_LOG: Final = logging.getLogger(__name__)
_ALERTS: Final = {
    TickOutcome.MISSED: AlertCode.SCHEDULE_TICK_MISSED,
    TickOutcome.SKIPPED: AlertCode.SCHEDULE_TICK_SKIPPED,
    TickOutcome.FAILED: AlertCode.SCHEDULE_TICK_FAILED,
}


class TickerView:
    """Shows what prevents a ticker from working. The default does nothing."""

    def trouble(self, reason: str) -> None: ...


class Ticker:
    """For the schedules of these tenants that start runs in these pools."""

    def __init__(
        self, parts: Parts, pools: Sequence[str], tenants: Sequence[str], view: TickerView | None = None
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._runs = ScheduledRuns(parts)
        self._pools = tuple(pools)
        self._tenants = frozenset(tenants)
        self._view = view or TickerView()
        self._alerting = Alerting(parts.store, parts.clock, telemetry=parts.telemetry)
        self._is_troubled = False
        # Schedules that could not be looked at, by tenant and id: each is reported once.
        self._stuck: set[tuple[str, str]] = set()

    async def serve(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. If the store does not answer, waits for it."""
        while not stop.is_set():
            pause = _PAUSE_SECONDS
            try:
                pause = _WAITING_SECONDS if await self.tick() else _PAUSE_SECONDS
                self._is_troubled = False
            except PodiumError as error:
                self._trouble(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()

    async def tick(self) -> bool:
        """Check every schedule that is due, once. True if one of them waits for the end of a run."""
        is_waiting, after = False, None
        while True:
            due = await self._store.due_schedules(self._pools, self._now(), after=after, limit=_PAGE)
            for schedule in due:
                if schedule.tenant_id in self._tenants:
                    is_waiting |= await self._try_to_advance(schedule)
            if len(due) < _PAGE:
                return is_waiting
            last = due[-1]
            after = DueAfter(last.due_at or ALWAYS, last.tenant_id, last.schedule_id)

    async def _try_to_advance(self, schedule: Schedule) -> bool:
        """What is wrong with one schedule, or with this machine, stops neither the others nor the worker."""
        key = schedule.tenant_id, schedule.schedule_id
        try:
            is_waiting = await self._advance(schedule)
        except StoreUnavailable:
            raise
        except Exception as error:
            if key not in self._stuck:
                self._stuck.add(key)
                self._view.trouble(f"schedule {schedule.schedule_id!r}: {_reason(schedule, error)}")
            return False
        self._stuck.discard(key)
        return is_waiting

    async def _advance(self, schedule: Schedule) -> bool:
        for _ in range(_MAX_STEPS):
            open_runs = await self._open_runs(schedule)
            step = next_step(schedule, self._now(), open_runs, str(uuid4()))
            if step is None:
                break
            changed = await self._carry_out(schedule, step)
            if changed is None:  # another ticker was faster, or a person has changed it
                return True
            schedule = changed.schedule
        await self._cancel(schedule)
        return schedule.due_at == ALWAYS

    async def _carry_out(self, schedule: Schedule, step: Step) -> ChangedSchedule | None:
        try:
            changed = await self._store_step(schedule, step)
        except StoreUnavailable:
            raise
        except PodiumError as error:
            if step.start is None:
                raise
            step = failed_step(schedule, step, error.code, without_credentials(str(error)))
            changed = await self._store.change_schedule(step.schedule, ticks=step.ticks)
        if changed is not None:
            for tick in changed.ticks:
                self._report(changed.schedule, tick)
        return changed

    async def _store_step(self, schedule: Schedule, step: Step) -> ChangedSchedule | None:
        if step.start is None:
            return await self._store.change_schedule(step.schedule, ticks=step.ticks)
        run_id = step.ticks[-1].run_id
        assert run_id is not None
        run = await self._runs.prepare(schedule, step.start.time, run_id)
        return await self._store.change_schedule(step.schedule, ticks=step.ticks, run=run)

    async def _open_runs(self, schedule: Schedule) -> frozenset[str]:
        backfill = schedule.backfill.open_runs if schedule.backfill is not None else ()
        return frozenset([run for run in (*schedule.open_runs, *backfill) if await self._is_open(run)])

    async def _is_open(self, run_id: str) -> bool:
        try:
            return (await self._store.get_run(RunId(run_id))).status not in TERMINAL
        except RunNotFound:  # removed since
            return False

    async def _cancel(self, schedule: Schedule) -> None:
        """Repeated until they have ended; the signal has the same id every time, so it is sent once."""
        for run_id in runs_to_cancel(schedule):
            access = access_of(self._parts, schedule.schedule_id)
            reason = {"reason": f"a later time of schedule {schedule.schedule_id} has come"}
            asked = (self._store, self._parts.clock, schedule.tenant_id, run_id, "CANCEL", reason)
            with contextlib.suppress(RunIsOver, RunNotFound):
                await send_signal(*asked, access=access, signal_id=_signal_id(schedule, run_id))

    def _report(self, schedule: Schedule, tick: Tick) -> None:
        code = _ALERTS.get(tick.outcome)
        if code is not None:
            alert = Alert(code, f"{schedule.schedule_id}@{tick.time}", describe(schedule, tick))
            with logging_about(tenant=schedule.tenant_id):
                self._alerting.notify(alert)

    def _trouble(self, error: PodiumError) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            self._view.trouble(f"{error.code}: {without_credentials(str(error))}")

    def _now(self) -> str:
        return timestamp(self._parts.clock.now())


def describe(schedule: Schedule, tick: Tick) -> str:
    """One line about the result for a time."""
    times = (
        tick.time if tick.until in (None, tick.time) else f"{tick.time} to {tick.until} ({tick.count} times)"
    )
    reason = ": ".join(part for part in (tick.code, tick.message) if part)
    what = f"run {tick.run_id}" if tick.outcome is TickOutcome.STARTED else reason
    return visible(f"schedule {schedule.schedule_id} {times}: {tick.outcome.value}, {what}")


def _reason(schedule: Schedule, error: Exception) -> str:
    times = schedule.definition.times
    if isinstance(times, Cron):
        if isinstance(error, ImportError) and not has_extra("schedules"):
            return f"{ExtraMissing.code}: {install_hint('schedules')}; until then its times are for other workers"
        if isinstance(error, ZoneInfoNotFoundError):
            return (
                f"this machine does not know the time zone {times.timezone!r}: pip install tzdata; until then its "
                "times are for other workers"
            )
    return describe_without_values(error)


def _signal_id(schedule: Schedule, run_id: str) -> str:
    digest = sha256(f"{schedule.tenant_id}|{schedule.schedule_id}|{run_id}|CANCEL".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))
