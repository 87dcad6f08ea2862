"""Monitors pauses: raises an alert if steps still run long after a pause was requested."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from podium.errors import PodiumError
from podium.log.ids import RunId

if TYPE_CHECKING:
    from podium.runtime.alerts import Alerting

DRAIN_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 5.0


class Draining(Protocol):
    """The part of a driver that is used here."""

    @property
    def running(self) -> int: ...

    @property
    def draining_since(self) -> int | None:
        """The number of the pause that lets running steps finish, starting at 1; None while nothing is
        drained.
        """
        ...


async def watch_draining(driver: Draining, run_id: RunId, alerting: "Callable[[], Alerting]") -> None:
    """Raise PAUSE_DRAIN_TIMEOUT once for each pause that is not drained in time. Uses the monotonic clock.

    `alerting` is called with the first alert: most runs have none.
    """
    loop = asyncio.get_running_loop()
    pause, since, alerted = None, 0.0, False
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = driver.draining_since
        if now != pause:
            pause, since, alerted = now, loop.time(), False
        if pause is not None and not alerted and loop.time() - since >= DRAIN_SECONDS:
            alerted = await _alert(alerting(), run_id, pause, driver.running)


async def _alert(alerting: "Alerting", run_id: RunId, pause: int, running: int) -> bool:
    from podium.log.alerts import Alert, AlertCode

    steps = "1 step still runs" if running == 1 else f"{running} steps still run"
    message = f"{steps} {DRAIN_SECONDS / 60:g} minutes after the run was paused"
    try:
        await alerting.raise_alert(run_id, Alert(AlertCode.PAUSE_DRAIN_TIMEOUT, str(pause), message))
    except PodiumError:
        return False  # the store is unavailable: tried again
    return True
