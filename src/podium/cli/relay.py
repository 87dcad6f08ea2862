"""`podium relay`: deliver events to a bus."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from functools import cache, partial

import click

from podium.cli.storing import json_option, store_option, using_parts
from podium.log.ids import RunId
from podium.operations.parts import Parts
from podium.operations.relaying import relay_events
from podium.runtime.relay import RelayView
from podium.text import visible
from podium.wiring import open_bus, relay_claim

_REFUSED = 1


@click.command()
@click.option("--bus", "address", required=True, metavar="jsonl:FILE", help="Where events are delivered.")
@click.option("--once", is_flag=True, help="Deliver what waits now, then exit.")
@click.option(
    "--from-now", is_flag=True, help="If the bus is new: only events that are recorded from now on."
)
@json_option
@store_option
def relay(address: str, once: bool, from_now: bool, as_json: bool, store: str | None) -> int:
    """Deliver the events of all runs to a bus, at least once, those of a run in order.

    The first relay of a bus registers it: from then on every event is kept until it is delivered there, and runs with
    undelivered events are not pruned; `podium outbox remove BUS` ends that. Several relays can work at the same time.
    Ctrl-C or SIGTERM stops a relay after the event at hand (exit code 0). An event that the bus refuses ten times
    becomes a dead letter (`podium outbox list`); with --once, exit code 1 if events were refused.

    \b
    podium relay --bus jsonl:events.jsonl
    podium relay --bus jsonl:events.jsonl --once
    """
    bus = cache(partial(open_bus, address))
    view = _JsonLines() if as_json else _Lines()

    def announce() -> None:
        if not once:
            click.echo(f"delivering events to {visible(bus().name)}; press Ctrl-C to stop", err=True)

    async def work(parts: Parts) -> int:
        return await relay_events(
            parts,
            bus,
            view,
            once=once,
            from_now=from_now,
            claim_ttl=relay_claim(),
            interrupts=partial(_interrupts, announce),
            on_outage=lambda reason: click.echo(f"waiting for the store: {visible(reason)}", err=True),
        )

    refused = using_parts(store, work)
    view.end(refused)
    return _REFUSED if once and refused else 0


@contextlib.contextmanager
def _interrupts(announce: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """The first signal stops the relay; a second one acts as usual. `announce`: from then on signals are handled."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        stop()

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    announce()
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _Lines(RelayView):
    """For people: a line for what was delivered of a run."""

    def __init__(self) -> None:
        self._count = 0

    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None:
        self._count += count
        events = "event" if count == 1 else "events"
        click.echo(f"{visible(run_id)}: {count} {events} delivered, up to event {through_seq}")

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None:
        then = "it is a dead letter now, see `podium outbox list`" if is_dead else "it is tried again"
        click.echo(
            f"{visible(run_id)}: event {run_seq} was refused ({failures}): {visible(error)}; {then}", err=True
        )

    def end(self, refused: int) -> None:
        click.echo(f"{self._count} delivered" + (f", {refused} refused" if refused else ""))


class _JsonLines(_Lines):
    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None:
        self._count += count
        _print({"run": run_id, "delivered": count, "through": through_seq})

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None:
        _print({"run": run_id, "event": run_seq, "failures": failures, "error": error, "dead": is_dead})

    def end(self, refused: int) -> None:
        _print({"delivered": self._count, "refused": refused})


def _print(value: object) -> None:
    click.echo(json.dumps(value))
