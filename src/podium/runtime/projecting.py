"""Keeps snapshots up to date with the log.

A projector continues from the stored snapshot, folds, and stores what changed. It may stop and restart at any
point, and several may work on one run: an older snapshot never replaces a newer one.
"""

from typing import Final

from podium.log.events import EventRecord
from podium.log.fold import EMPTY, RunSnapshot, Steps, project_more, steps_named
from podium.log.ids import RunId
from podium.log.times import moment
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.alerts import Alerting

BATCH: Final = 1000
LAG_ALERT_SECONDS: Final = 5.0


class Projecting:
    def __init__(self, store: Store, clock: Clock, alerting: Alerting, *, on_demand: bool = False) -> None:
        """`on_demand`: a run is only projected when it is viewed, so the time since the last projection is
        not lag.
        """
        self._store = store
        self._clock = clock
        self._alerting = alerting
        self._on_demand = on_demand
        # How far behind the log the last projection started, in seconds.
        self.lag = 0.0

    async def catch_up(self, run_id: RunId) -> RunSnapshot:
        """Bring the stored snapshot of a run up to its log; its steps are those of the last events."""
        snapshot = await self._stored(run_id)
        while records := await self._store.read(run_id, after=snapshot.last_event_seq, limit=BATCH):
            self._measure_lag(records[0])
            folded = await self._fold(run_id, snapshot, records)
            snapshot = folded or await self._stored(run_id)
            if folded is not None and len(records) < BATCH and not folded.alerts:
                break  # an alert is one more event
        return snapshot

    async def _stored(self, run_id: RunId) -> RunSnapshot:
        summary = await self._store.load_summary(run_id)
        return EMPTY if summary is None else RunSnapshot(summary, Steps({}))

    async def _fold(
        self, run_id: RunId, snapshot: RunSnapshot, records: list[EventRecord]
    ) -> RunSnapshot | None:
        """None if another projector has come further: its steps do not belong to this summary."""
        named = list({step_id for record in records for step_id in steps_named(record)})
        known = {step.step_id: step for step in await self._store.find_steps(run_id, named)}
        if known and (await self._stored(run_id)).last_event_seq != snapshot.last_event_seq:
            return None
        base = RunSnapshot(snapshot.summary, Steps(dict(known)))
        folded = project_more(base, records)
        alerts = folded.alerts
        if folded.summary.stale is not None:
            # Read once more: what is still missing never existed, and the gap is accepted.
            again = await self._store.read(run_id, after=folded.last_event_seq, limit=BATCH)
            folded = project_more(folded, again, accept_gaps=True)
            alerts += folded.alerts
        changed = [step for step in folded.steps.values() if known.get(step.step_id) is not step]
        await self._store.save_snapshot(run_id, folded.summary, changed)
        for alert in alerts:
            await self._alerting.raise_alert(run_id, alert)
        return folded

    def _measure_lag(self, oldest: EventRecord) -> None:
        self.lag = max(0.0, (self._clock.now() - moment(oldest.persisted_at)).total_seconds())
        if self.lag > LAG_ALERT_SECONDS and not self._on_demand:
            self._alerting.lag_is_high(self.lag)
