"""Records a signal on condition that its run is open: after the run's end nothing could act on it.

Between reading the run and the append the run may end. So the append names the newest record that was seen;
if the log has new records, the run is read again.

A driver checks for signals by itself. A run of another engine has to be notified, and a notification can be
lost: a wake-up is stored with the signal, and workers repeat the notification until the signal was folded.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import msgspec

from podium.access.actors import Actor
from podium.access.audit import AuditDraft
from podium.errors import LogMoved
from podium.log.engines import LOCAL
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence, WakeUp
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.machine.following import signal_wake_up
from podium.ports.store import AppendedEvent, Store

# If the log has changed this often in a row, the run is busy and not about to end.
_MAX_TRIES: Final = 100


async def append_while_open(store: Store, run_id: RunId, write: EventWrite) -> bool:
    """False if the run has ended: then nothing was recorded."""
    for tries_left in reversed(range(_MAX_TRIES)):
        run = await store.get_run(run_id)
        if run.status in TERMINAL:
            return False
        with suppress(LogMoved):
            await append_signal(store, run, [write], after=run.head if tries_left else None)
            break
    return True


async def append_signal(
    store: Store,
    run: Run,
    writes: Sequence[EventWrite],
    *,
    after: int | None = None,
    fence: Fence | None = None,
    audit: Sequence[AuditDraft] = (),
) -> AppendedEvent:
    """Append a signal and what follows from it, in one transaction. Returns the result for the signal.

    Raises `LogMoved` if `after` is not the run's newest record.
    """
    wake_ups: tuple[WakeUp, ...] = ()
    run_id, signal = run.identity.run_id, writes[0]
    if run.provider != LOCAL:
        key = signal_wake_up(msgspec.json.decode(signal.payload, type=_Signal).signal_id)
        wake_ups = (WakeUp(run_id=run_id, key=key, due=signal.emitted_at),)
    appended = await store.append(
        run_id, writes, fence=fence, after=after, set_wake_ups=wake_ups, audit=audit
    )
    return appended[0]


def stop_body(reason: str, by: Actor | None, *, force: bool = False) -> dict[str, Any]:
    """The body of SignalAccepted for a stop that the engine itself records, with its sender."""
    known: dict[str, Any] = {}
    if by is not None:
        known = {"by": by.name, "byMethod": by.method.value}
        known |= {"byUid": by.uid} if by.uid is not None else {}
    return {
        "signalId": str(uuid4()),
        "signalType": "EMERGENCY_STOP" if force else "CANCEL",
        "payload": {"reason": reason},
        **known,
    }


class _Signal(msgspec.Struct, rename="camel"):
    signal_id: str
