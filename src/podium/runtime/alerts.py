"""Alerts reach people once: as an event in the run's log, and through a hook.

The event's key is made of code and subject, so that however many processes see the same thing, the log has it once;
and only whoever got it into the log calls the hook.
"""

import logging
from uuid import uuid4

from podium.core.keys import key_v1, slot_of
from podium.model.alerts import Alert, AlertCode
from podium.model.events import EventType, EventWrite, encode_payload
from podium.model.ids import RunId
from podium.model.times import timestamp
from podium.ports.bus import AlertHook
from podium.ports.clock import Clock
from podium.ports.store import EventLog

logger = logging.getLogger(__name__)


def log_alert(run_id: RunId | None, alert: Alert) -> None:
    """The default hook."""
    logger.error("%s%s: %s", alert.code, f" (run {run_id})" if run_id else "", alert.message)


class Alerting:
    def __init__(self, store: EventLog, clock: Clock, hook: AlertHook = log_alert) -> None:
        self._store = store
        self._clock = clock
        self._hook = hook

    async def raise_alert(self, run_id: RunId, alert: Alert) -> bool:
        """Record an alert about a run; False if it had been raised before."""
        run = (await self._store.get_run(run_id)).identity
        slot = slot_of(EventType.ALERT_RAISED, subject=f"{alert.code}:{alert.subject}")
        write = EventWrite(
            event_id=str(uuid4()),
            event_type=EventType.ALERT_RAISED,
            idempotency_key=key_v1(run_id, slot, 1, EventType.ALERT_RAISED, run.plan_version),
            emitted_at=timestamp(self._clock.now()),
            payload=encode_payload({"code": alert.code, "subject": alert.subject, "message": alert.message}),
        )
        (appended,) = await self._store.append(run_id, [write])
        if appended.duplicate:
            return False
        self._hook(run_id, alert)
        return True

    def lag_is_high(self, seconds: float) -> None:
        """Lag concerns the projector, not a run: it goes to the hook alone."""
        message = f"projections are {seconds:.1f} seconds behind the log"
        self._hook(None, Alert(AlertCode.PROJECTOR_LAG_HIGH, "", message))
