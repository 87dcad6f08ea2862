"""`podium notify`: try the targets of notifications, and deliver those that wait."""

import asyncio

import click

from podium.cli.app import INVALID_FILE, UNAVAILABLE
from podium.cli.hints import given_runs
from podium.cli.output import print_diagnostics
from podium.cli.reading import read_file
from podium.cli.storing import store_option, using_parts
from podium.log.times import timestamp
from podium.operations.notifying import deliver_notifications, try_targets
from podium.operations.workflows import load_workflow
from podium.text import visible
from podium.wiring.agents import installed_providers
from podium.wiring.engines import waiting_notifications
from podium.wiring.plans import secret_lookup
from podium.wiring.stores import runs_folder, system_clock


@click.group()
def notify() -> None:
    """Try the targets of `notify`, and deliver notifications that wait."""


@notify.command()
@click.argument("file", metavar="FILE")
def test(file: str) -> int:
    """Send a test notification to each target of the workflow FILE.

    Exit code 0 if all took it, 65 invalid workflow, 69 if one did not.
    """
    name, content = read_file(file)
    reading = load_workflow(content, name, installed_providers=installed_providers)
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    tried = asyncio.run(try_targets(reading.plan, secret_lookup(), timestamp(system_clock().now())))
    if not tried:
        click.echo(f"{visible(name)} has no notifications; add `notify:` to the workflow or to a step")
    for target in tried:
        click.echo(f"{visible(target.name)}: {visible(target.problem) if target.problem else 'delivered'}")
    return UNAVAILABLE if any(target.problem for target in tried) else 0


@notify.command()
@store_option
def deliver(store: str | None) -> int:
    """Deliver the notifications that wait in the store.

    Every process that drives runs does the same; this is for a store that no process uses now. Exit code 69 if some
    could not be delivered: they stay, and `podium outbox list` shows them.
    """
    folder = runs_folder(given_runs())
    left = using_parts(
        store, lambda parts: deliver_notifications(parts, lambda: waiting_notifications(parts.store, folder))
    )
    if left:
        click.echo(
            f"{left} notifications could not be delivered yet; `podium outbox list` shows them", err=True
        )
    return UNAVAILABLE if left else 0
