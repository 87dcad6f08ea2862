"""`podium outbox`: what still has to be delivered to buses, and what could not be."""

import click
import msgspec

from podium.cli.output import print_json, print_table
from podium.cli.storing import MAX_NUMBER, json_option, store_option, using_parts
from podium.operations.outbox import drop_dead_letter, list_outbox, remove_bus, retry_dead_letter


@click.group()
def outbox() -> None:
    """Look at events on their way to a bus, and decide about those that did not arrive."""


@outbox.command("list")
@store_option
@click.option("--bus", help="Only this bus.")
@json_option
def list_(store: str | None, bus: str | None, as_json: bool) -> None:
    """List what waits, run by run, and the dead letters."""

    lines, dead = using_parts(store, lambda parts: list_outbox(parts, bus))
    if as_json:
        print_json({"waiting": msgspec.to_builtins(lines), "dead": msgspec.to_builtins(dead)})
        return
    print_table(
        ("bus", "run", "waiting", "from event", "failures", "error"),
        [
            (line.bus, line.run_id, str(line.waiting), str(line.first_seq), str(line.failures), line.error)
            for line in lines
        ],
    )
    if dead:
        click.echo("dead letters:")
        print_table(
            ("bus", "run", "event", "type", "failures", "error"),
            [
                (one.bus, one.run_id, str(one.run_seq), one.event_type, str(one.failures), one.error)
                for one in dead
            ],
        )


@outbox.command()
@click.argument("bus")
@click.argument("run_id", metavar="RUN")
@click.argument("event", type=click.IntRange(0, MAX_NUMBER))
@store_option
def retry(bus: str, run_id: str, event: int, store: str | None) -> None:
    """Try to deliver a dead letter again."""

    found = using_parts(store, lambda parts: retry_dead_letter(parts, bus, run_id, event))
    _answer(found, "it will be delivered again")


@outbox.command()
@click.argument("bus")
@click.argument("run_id", metavar="RUN")
@click.argument("event", type=click.IntRange(0, MAX_NUMBER))
@store_option
def drop(bus: str, run_id: str, event: int, store: str | None) -> None:
    """Give a dead letter up: this bus never gets that event. It stays in the log."""

    _answer(using_parts(store, lambda parts: drop_dead_letter(parts, bus, run_id, event)), "dropped")


@outbox.command()
@click.argument("bus")
@store_option
def remove(bus: str, store: str | None) -> None:
    """Forget a bus: nothing is kept for it any more, and what waits for it is not delivered. The log is not changed."""

    using_parts(store, lambda parts: remove_bus(parts, bus))
    click.echo("removed")


def _answer(found: bool, done: str) -> None:
    if not found:
        raise click.UsageError("no such dead letter; `podium outbox list` lists them.")
    click.echo(done)
