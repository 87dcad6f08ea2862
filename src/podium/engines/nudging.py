"""Nudges: notifications to an execution that a signal is in the log of its run.

A nudge may be lost, so it is repeated as long as the wake-up of the signal is in the store. But each is an
event in the history of the execution, whose size the server limits: a run that no worker currently decides
about (because its rules are older, for example) must not fill its history. So the time between two nudges for
one wake-up grows. A nudge that the server did not accept does not count.

A run that was returned until a timer is due has a wake-up, too, in case its server does not wake it then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.times import Timestamp
from podium.machine.following import is_signal_wake_up

_FIRST_SECONDS: Final = 0.2
_MAX_SECONDS: Final = 60.0
_MAX_WAKE_UPS: Final = 1000
# For a run that waits for a timer and that no worker keeps.
PARKED: Final = "parked|timer"

Key = tuple[RunId, str]


class WakeUps(Protocol):
    async def due(
        self, before: Timestamp, *, limit: int = 100, provider: str | None = None
    ) -> list[WakeUp]: ...


class Nudger:
    """`send` nudges the execution of a run; False if the server did not accept it. It never raises."""

    def __init__(self, store: WakeUps, provider: str, send: Callable[[RunId], Awaitable[bool]]) -> None:
        self._store = store
        self._provider = provider
        self._send = send
        # For each wake-up: when the next nudge is due, and the delay after that.
        self._next: dict[Key, tuple[float, float]] = {}

    async def nudge(self, now: Timestamp, clock: float) -> None:
        """Nudge all runs whose wake-ups are due. `clock`: in seconds, never set back."""
        due = await self._store.due(now, limit=_MAX_WAKE_UPS, provider=self._provider)
        keys = [(one.run_id, one.key) for one in due if is_signal_wake_up(one.key) or one.key == PARKED]
        self._next = {key: self._next.get(key, (clock, _FIRST_SECONDS)) for key in keys}
        wanted = [key for key in keys if self._next[key][0] <= clock]
        runs = list(dict.fromkeys(run_id for run_id, _ in wanted))
        taken = await asyncio.gather(*(self._send(run_id) for run_id in runs))
        self._wait([key for key in wanted if taken[runs.index(key[0])]], clock)

    def _wait(self, keys: Sequence[Key], clock: float) -> None:
        for key in keys:
            _, seconds = self._next[key]
            self._next[key] = (clock + seconds, min(2 * seconds, _MAX_SECONDS))
