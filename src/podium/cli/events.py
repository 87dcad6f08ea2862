"""`podium events`: the log of a run, as it is and as it grows."""

import click

from podium.cli.following import saying_when_undriven
from podium.cli.output import spelled_json
from podium.cli.storing import MAX_NUMBER, json_option, store_option, tenant_option, using_parts
from podium.log.envelope import encode_envelope
from podium.log.events import NO_PAYLOAD, EventRecord
from podium.operations.parts import Parts
from podium.operations.runs import follow_events, read_events
from podium.text import visible


@click.command()
@click.argument("run_id", metavar="RUN")
@store_option
@tenant_option
@click.option(
    "--after",
    default=0,
    show_default=True,
    type=click.IntRange(0, MAX_NUMBER),
    help="Start after this event.",
)
@click.option("--follow", is_flag=True, help="Go on as events come, until the run ends.")
@json_option
def events(run_id: str, store: str | None, tenant: str, after: int, follow: bool, as_json: bool) -> None:
    """Print the events of a run; with --json one object per line.

    \b
    podium events RUN --follow
    podium events RUN --json | jq .eventType
    """

    async def work(parts: Parts) -> None:
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

    using_parts(store, work)


def _print(records: list[EventRecord], as_json: bool) -> None:
    for record in records:
        click.echo(spelled_json(encode_envelope(record).decode()) if as_json else _line(record))


def _line(record: EventRecord) -> str:
    about = ""
    if record.step_id is not None:
        attempt = f" #{record.logical_attempt_id}" if record.logical_attempt_id > 1 else ""
        about = f"  {visible(record.step_id)}{attempt}"
    payload = visible(record.payload.decode()) if record.payload != NO_PAYLOAD else ""
    if len(payload) > 100:
        payload = f"{payload[:97]}..."
    return f"{record.run_seq:>6}  {record.emitted_at}  {record.event_type}{about}  {payload}".rstrip()
