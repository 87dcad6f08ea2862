"""Delivers the events of a store to a bus, until stopped or until nothing is left to deliver."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Final

from podium.errors import StoreUnavailable
from podium.log.outbox import BusFilter
from podium.operations.parts import Parts
from podium.ports.bus import EventBus
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime import holders
from podium.runtime.alerts import Alerting
from podium.runtime.observed_bus import ObservedBus
from podium.runtime.relay import CLAIM_TTL, Relay, RelayView

_OUTAGE_PAUSE: Final = 1.0

Interrupts = Callable[[Callable[[], None]], AbstractContextManager[None]]


def _not_interrupted(_stop: Callable[[], None]) -> AbstractContextManager[None]:
    return nullcontext()


async def relay_events(
    parts: Parts,
    open_bus: Callable[[], Awaitable[EventBus]],
    view: RelayView,
    *,
    once: bool = False,
    from_now: bool = False,
    only: BusFilter | None = None,
    claim_ttl: timedelta = CLAIM_TTL,
    interrupts: Interrupts = _not_interrupted,
    on_outage: Callable[[str], None] = lambda _: None,
    telemetry: Telemetry = SILENT,
) -> int:
    """Returns how many events the bus has refused so far, including dead letters.

    `open_bus` is called only if it is permitted, because it may create a file. `interrupts`: a context around
    the work; it calls its argument to stop the work. `from_now`: a bus that is new to the store gets no
    earlier events. `only`: which events it receives, see `Outbox.add_bus`.
    """
    await parts.require_everywhere("store.relay")
    store, bus = parts.store, await open_bus()
    if telemetry.is_on:
        bus = ObservedBus(bus, telemetry, parts.clock)
    alerting = Alerting(store, parts.clock, telemetry=telemetry)
    relay = Relay(store, bus, alerting, owner=holders.new_owner(), claim_ttl=claim_ttl, view=view)
    try:
        with interrupts(relay.stop):
            await store.add_bus(bus.name, from_start=not from_now, only=only)
            if once:
                await relay.run_once()
            else:
                await _run(relay, on_outage)
    finally:
        await bus.close()
    try:
        return await _refused(store, bus.name)
    except StoreUnavailable:
        if once:
            raise
        return 0


async def _refused(store: Store, bus: str) -> int:
    refused = sum(line.waiting for line in await store.outbox_lines(bus) if line.failures)
    return refused + len(await store.dead_letters(bus))


async def _run(relay: Relay, on_outage: Callable[[str], None]) -> None:
    """Waits for an unavailable store without a limit: a relay has nothing else to do."""
    is_away = False
    while True:
        try:
            return await relay.run()
        except StoreUnavailable as error:
            if not is_away:
                on_outage(str(error))
            is_away = True
            await relay.pause(_OUTAGE_PAUSE)
