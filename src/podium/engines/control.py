"""What a person can do to a run that this process drives, and when the process leaves it.

A run is left when nothing in it can continue by itself and the caller does not want to wait; it stays open in
the store.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from podium.errors import PodiumError
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.machine.obligations import FOR_A_PERSON, MOVING, Obligation
from podium.machine.progress import Progress
from podium.ports.store import Store
from podium.runtime.drive import Driver
from podium.runtime.inbox import PendingEvent
from podium.runtime.outages import Outages

if TYPE_CHECKING:
    from podium.access.actors import Actor

_IDLE_SECONDS: Final = 0.1


class Control:
    """The `Driving` that a caller receives, valid once this process owns the run."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._outages: Outages | None = None
        self.is_cancelled = False
        # Cancelled while it waited for a slot: it never starts.
        self.was_queued = False
        # Requests from before there was a driver.
        self._early: list[PendingEvent] = []

    def begin(self, driver: Driver, outages: Outages) -> None:
        self._driver = driver
        self._outages = outages
        for pending in self._early:
            driver.submit(pending)

    def cancel(self, reason: str, *, force: bool = False, by: "Actor | None" = None) -> None:
        if force and self._outages is not None:
            # Requests cannot be recorded while the store is unavailable: the run is left as it is.
            self._outages.give_up()
        self.is_cancelled = True
        from podium.runtime.signalling import stop_body

        payload = stop_body(reason, by, force=force)
        pending = PendingEvent(EventType.SIGNAL_ACCEPTED, payload=payload, subject=payload["signalId"])
        if self._driver is None:
            self._early.append(pending)
        else:
            self._driver.submit(pending)


class Left(Exception):
    """This process does not wait for what the run waits for."""


async def leave_when_idle(store: Store, run_id: RunId, driver: Driver, *, no_wait: bool) -> None:
    """Waits until nothing runs and only a person can let the run continue, according to a machine that has
    folded the whole log.

    Without `no_wait` the run is left only if its budget is used up: an answer at a terminal cannot change
    that.
    """
    while True:
        await asyncio.sleep(_IDLE_SECONDS)
        machine = driver.machine
        if not no_wait and "budget" not in machine.hold.reasons:
            continue
        seq = machine.last_seq
        with contextlib.suppress(PodiumError):
            head = (await store.get_run(run_id)).head
            if driver.machine is machine and head == seq == machine.last_seq and driver.running == 0:
                reason = idle_because(machine.obligations())
                if reason is not None:
                    driver.leave(Left(reason))
                    return


def idle_because(owed: Sequence[Obligation]) -> str | None:
    """The reason why nothing in the run can continue by itself; None if something can, or is about to."""
    kinds = {one.kind for one in owed}
    if "hold" in kinds:
        if kinds & MOVING:
            return None
        out_of_money = any(one.kind == "hold" and one.subject == "budget" for one in owed)
        return "out of budget" if out_of_money else "paused"
    return "waiting" if kinds & FOR_A_PERSON and kinds <= FOR_A_PERSON | {"limit"} else None


async def report_waiting(driver: Driver, on_waiting: Callable[[Progress], None]) -> None:
    """Report soon after what the run waits for has changed; less often for a run with many obligations."""
    reported: tuple[int, int] | None = None
    loop = asyncio.get_running_loop()
    pause = _IDLE_SECONDS
    while True:
        await asyncio.sleep(pause)
        machine = driver.machine
        now = (id(machine), machine.last_seq)
        if now != reported and machine.root is not None:
            began = loop.time()
            on_waiting(machine.progress())
            pause = max(_IDLE_SECONDS, 20 * (loop.time() - began))
            reported = now
