"""`podium events`: the log of a run, as it is and as it grows."""

from typing import TYPE_CHECKING

import click

from podium.cli.following import saying_when_undriven
from podium.cli.output import spelled_json
from podium.cli.servers import asking_run, place_options
from podium.cli.storing import MAX_NUMBER, json_option, run_argument
from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.operations.parts import Parts
from podium.operations.printed import event_line
from podium.operations.runs import follow_events, read_events

if TYPE_CHECKING:
    from podium.client import Client


@click.command()
@run_argument
@place_options
@click.option(
    "--after",
    default=0,
    show_default=True,
    type=click.IntRange(0, MAX_NUMBER),
    help="Start after this event.",
)
@click.option("--follow", is_flag=True, help="Follow the events until the run ends.")
@json_option
def events(run_id: str, store: str | None, tenant: str, after: int, follow: bool, as_json: bool) -> None:
    """Print the events of a run; with --json one object per line.

    \b
    podium events RUN --follow
    podium events RUN --json | jq .eventType
    """

    async def work(parts: Parts, run_id: RunId) -> None:
        opened = parts.store
        if follow:
            async with saying_when_undriven(opened, await opened.runs.find(tenant, run_id)):
                async for records in follow_events(opened, tenant, run_id, after=after):
                    _print(records, as_json)
            return
        seen = after
        while records := await read_events(opened, tenant, run_id, after=seen):
            _print(records, as_json)
            seen = records[-1].run_seq

    def remotely(client: "Client", run_id: RunId) -> None:
        from podium.cli.remote_events import remote_events

        for record in remote_events(client, run_id, after, follow=follow):
            _print([record], as_json)

    asking_run(store, tenant, run_id, work, remotely)


def _print(records: list[EventRecord], as_json: bool) -> None:
    for record in records:
        click.echo(spelled_json(encode_envelope(record).decode()) if as_json else event_line(record))
