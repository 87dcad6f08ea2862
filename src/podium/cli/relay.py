"""`podium relay`: deliver events to a bus."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from functools import partial

import click

from podium.cli.storing import json_option, store_option, using_parts
from podium.cli.telemetry import opened_telemetry, telemetry_options
from podium.log.ids import RunId
from podium.log.outbox import BusFilter, bus_filter
from podium.operations.parts import Parts
from podium.operations.relaying import relay_events
from podium.ports.bus import EventBus
from podium.ports.telemetry import Telemetry
from podium.runtime.relay import RelayView
from podium.text import visible
from podium.wiring.buses import has_topics, open_bus, relay_claim

_REFUSED = 1


@click.command()
@click.option(
    "--bus",
    "address",
    required=True,
    metavar="ADDRESS",
    help="Where events are delivered: jsonl:FILE, jsonl:FOLDER/ (a file per topic) or kafka://HOST:PORT.",
)
@click.option(
    "--topic",
    help="The topic for events. Without it, a folder or Kafka gets only what steps publish, by their topics.",
)
@click.option(
    "--event",
    "event_types",
    multiple=True,
    metavar="TYPE",
    help="Only events of this type, like RunCompleted; repeat it for more.",
)
@click.option(
    "--plan", "plans", multiple=True, metavar="PLAN", help="Only events of runs of this plan, by its id."
)
@click.option("--once", is_flag=True, help="Deliver what waits now, then exit.")
@click.option(
    "--from-now", is_flag=True, help="If the bus is new: only events that are recorded from now on."
)
@telemetry_options
@json_option
@store_option
def relay(
    address: str,
    topic: str | None,
    event_types: tuple[str, ...],
    plans: tuple[str, ...],
    once: bool,
    from_now: bool,
    metrics: str | None,
    traces: str | None,
    as_json: bool,
    store: str | None,
) -> int:
    """Deliver the events of all runs to a bus, at least once, those of a run in order.

    The first relay of a bus registers it, with its --event and --plan: from then on every event that passes them is
    kept until it is delivered there, and runs with undelivered events are not pruned; `podium outbox remove BUS` ends
    that. Several relays can work at the same time. Ctrl-C or SIGTERM stops a relay after the events at hand (exit code
    0). An event that the bus refuses ten times becomes a dead letter (`podium outbox list`); with --once, exit code 1
    if events were refused. A broker that does not answer is waited for; at the start or with --once, exit code 69.

    \b
    podium relay --bus jsonl:events.jsonl
    podium relay --bus jsonl:events.jsonl --once --event RunCompleted --event RunFailed
    podium relay --bus kafka://127.0.0.1:9092 --topic podium-events
    """
    view = _JsonLines() if as_json else _Lines()
    only = _filter(event_types, plans, messages_only=topic is None and has_topics(address))
    opened: list[EventBus] = []

    async def bus() -> EventBus:
        opened.append(await open_bus(address, topic))
        return opened[0]

    def announce() -> None:
        if not once:
            click.echo(f"delivering events to {visible(opened[0].name)}; press Ctrl-C to stop", err=True)

    async def work(telemetry: Telemetry, parts: Parts) -> int:
        return await relay_events(
            parts,
            bus,
            view,
            once=once,
            from_now=from_now,
            only=only,
            claim_ttl=relay_claim(),
            interrupts=partial(_interrupts, announce),
            on_outage=lambda reason: click.echo(f"waiting for the store: {visible(reason)}", err=True),
            telemetry=telemetry,
        )

    with opened_telemetry(metrics, traces) as telemetry:
        refused = using_parts(store, partial(work, telemetry))
    view.end(refused)
    return _REFUSED if once and refused else 0


def _filter(event_types: tuple[str, ...], plans: tuple[str, ...], *, messages_only: bool) -> BusFilter | None:
    """None: the filter with which the bus was registered, else everything."""
    if messages_only and event_types:
        raise click.UsageError("--event selects events for a topic; name it with --topic.")
    if not (event_types or plans or messages_only):
        return None
    return bus_filter(event_types, plans, messages_only=messages_only)


@contextlib.contextmanager
def _interrupts(announce: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """The first signal stops the relay; a second one has its usual effect. `announce`: from then on signals
    are handled.
    """
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
    """Output for people: a line for each delivery of a run."""

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

    def bus_is_away(self, reason: str) -> None:
        click.echo(f"waiting for the bus: {visible(reason)}", err=True)

    def end(self, refused: int) -> None:
        click.echo(f"{self._count} delivered" + (f", {refused} refused" if refused else ""))


class _JsonLines(_Lines):
    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None:
        self._count += count
        _print({"run": run_id, "delivered": count, "through": through_seq})

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None:
        _print({"run": run_id, "event": run_seq, "failures": failures, "error": error, "dead": is_dead})

    def bus_is_away(self, reason: str) -> None:
        _print({"bus": "unavailable", "reason": reason})

    def end(self, refused: int) -> None:
        _print({"delivered": self._count, "refused": refused})


def _print(value: object) -> None:
    click.echo(json.dumps(value))
