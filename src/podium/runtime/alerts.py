"""Alerts reach people once: as an event in the run's log, through a hook, and in the metrics.

The event's key is made of code and subject, so the log has it once, however many processes detect the same
condition; and only the process that recorded it calls the hook.
"""

import logging

from podium.log.alerts import Alert, AlertCode
from podium.log.events import EventType, encode_payload
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.ports.bus import AlertHook
from podium.ports.clock import Clock
from podium.ports.log_fields import about, logging_about
from podium.ports.store import EventLog
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.writing import new_event

logger = logging.getLogger(__name__)


def log_alert(run_id: RunId | None, alert: Alert) -> None:
    """The default hook."""
    fields = {"run": run_id} if run_id else {}
    logger.error(
        "%s%s: %s", alert.code, f" (run {run_id})" if run_id else "", alert.message, extra=about(**fields)
    )


class Alerting:
    def __init__(
        self, store: EventLog, clock: Clock, hook: AlertHook = log_alert, *, telemetry: Telemetry = SILENT
    ) -> None:
        self._store = store
        self._clock = clock
        self._hook = hook
        self._telemetry = telemetry

    async def raise_alert(self, run_id: RunId, alert: Alert) -> bool:
        """Record an alert about a run; False if it had been raised before."""
        run = (await self._store.get_run(run_id)).identity
        payload = {"code": alert.code, "subject": alert.subject, "message": alert.message}
        write = new_event(
            run,
            EventType.ALERT_RAISED,
            timestamp(self._clock.now()),
            encode_payload(payload),
            subject=f"{alert.code}:{alert.subject}",
        )
        (appended,) = await self._store.append(run_id, [write])
        if appended.duplicate:
            return False
        with logging_about(tenant=run.tenant_id):
            self._pass_on(run_id, alert)
        return True

    def notify(self, alert: Alert) -> None:
        """An alert that does not concern a single run is in no log of a run."""
        self._pass_on(None, alert)

    def _pass_on(self, run_id: RunId | None, alert: Alert) -> None:
        if self._telemetry.is_on:
            from podium.ports.metrics import ALERTS

            self._telemetry.count(ALERTS, alert.code)
        self._hook(run_id, alert)

    def lag_is_high(self, seconds: float) -> None:
        message = f"projections are {seconds:.1f} seconds behind the log"
        self.notify(Alert(AlertCode.PROJECTOR_LAG_HIGH, "", message))
