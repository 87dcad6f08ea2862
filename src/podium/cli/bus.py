"""`podium bus listen`: start a run for every message of a topic."""

import asyncio
import json
import signal
from functools import partial
from pathlib import Path

import click

from podium.cli.app import INVALID_FILE
from podium.cli.env_files import env_file_option, use_env_files
from podium.cli.foreground import compiled_workflow
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.cli.telemetry import opened_telemetry, telemetry_options
from podium.log.ids import RunId
from podium.log.messages import TOPIC_EXPECTED, is_topic
from podium.operations.listening import Listener, ListenerView
from podium.operations.parts import Parts
from podium.ports.engine import RunRequest
from podium.ports.events_in import Incoming
from podium.ports.telemetry import Telemetry
from podium.text import visible
from podium.wiring.buses import open_source


@click.group()
def bus() -> None:
    """Start runs by messages."""


@bus.command()
@click.option("--topic", required=True, help="The topic to read.")
@click.option(
    "--workflow", "file", required=True, metavar="FILE", help="The workflow that each message starts."
)
@click.option(
    "--bus",
    "address",
    required=True,
    envvar="PODIUM_BUS",
    metavar="ADDRESS",
    help="Where the topic is: kafka://HOST:PORT or jsonl:FOLDER/. [default: PODIUM_BUS]",
)
@click.option(
    "--group", help="The consumer group; its members share the messages. [default: the id of the plan]"
)
@click.option(
    "--slots",
    type=click.IntRange(1, 1000),
    default=16,
    show_default=True,
    help="Maximum number of concurrent runs.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds that running runs get after SIGTERM.",
)
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False, exists=True),
    help="Where commands run. [default: here]",
)
@telemetry_options
@env_file_option
@json_option
@tenant_option
@store_option
def listen(
    topic: str,
    file: str,
    address: str,
    group: str | None,
    slots: int,
    drain: float,
    workspace: Path | None,
    metrics: str | None,
    traces: str | None,
    env_files: tuple[Path, ...],
    as_json: bool,
    tenant: str,
    store: str | None,
) -> int:
    """Start a run for every message of a topic, with its JSON body as inputs, until Ctrl-C or SIGTERM.

    A message is committed when its run is in the store: none is lost, and one that is delivered again starts no second
    run. A message that can start no run (not a JSON object, wrong inputs, over 256 KiB) is copied to the topic
    TOPIC.dead with a code, and the next one follows. Runs are driven in this process; those that a killed listener left
    are resumed. Exit codes: 0 stopped, 65 invalid workflow, 69 the bus or the store does not answer at the start, 78 a
    topic is missing or not allowed, or something that the workflow needs is missing.

    \b
    podium bus listen --bus kafka://127.0.0.1:9092 --topic orders --workflow order.yaml
    podium bus listen --bus jsonl:topics/ --topic orders --workflow order.yaml --slots 4
    """
    name, content = read_file(file)
    plan = compiled_workflow(content, name, workspace)
    if plan is None:
        return INVALID_FILE
    group = group or plan.metadata.plan_id
    for option, value in (("--topic", topic), ("--group", group)):
        if not is_topic(value):
            raise click.UsageError(f"{option} {visible(value)!r} is not {TOPIC_EXPECTED}.")
    use_env_files(env_files)
    folder = workspace if workspace is not None else Path.cwd()
    template = RunRequest(plan, source=content, workspace=folder, tenant_id=tenant)
    source = open_source(address, topic, group)
    view = (_JsonLines if as_json else _Lines)(f"{topic!r} of {source.name} as group {group!r}")

    async def work(telemetry: Telemetry, parts: Parts) -> None:
        listener = Listener(parts, source, template, group=group, slots=slots, view=view, telemetry=telemetry)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, partial(_stop, loop, listener))
        await listener.listen(drain=drain)

    with opened_telemetry(metrics, traces) as telemetry:
        using_parts(store, partial(work, telemetry), create=True, telemetry=telemetry)
    return 0


def _stop(loop: asyncio.AbstractEventLoop, listener: Listener) -> None:
    """The first signal drains the listener; a second one has its usual effect."""
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    listener.stop()


class _Lines(ListenerView):
    """Output for people."""

    def __init__(self, place: str) -> None:
        self._place = place

    def ready(self) -> None:
        click.echo(f"listening to {visible(self._place)}; press Ctrl-C to stop", err=True)

    def started(self, run_id: RunId, message: Incoming) -> None:
        click.echo(f"{visible(run_id)}: started by message {message.partition}/{message.offset}")

    def ended(self, run_id: RunId, event_type: str) -> None:
        click.echo(f"{visible(run_id)}: {event_type}")

    def buried(self, message: Incoming, code: str) -> None:
        click.echo(
            f"message {message.partition}/{message.offset} can start no run ({code}); it is in "
            f"{visible(message.topic)}.dead",
            err=True,
        )

    def trouble(self, reason: str) -> None:
        click.echo(f"trying again: {visible(reason)}", err=True)


class _JsonLines(_Lines):
    def ready(self) -> None:
        _print({"listening": self._place})

    def started(self, run_id: RunId, message: Incoming) -> None:
        _print({"started": run_id, "partition": message.partition, "offset": message.offset})

    def ended(self, run_id: RunId, event_type: str) -> None:
        _print({"ended": run_id, "event": event_type})

    def buried(self, message: Incoming, code: str) -> None:
        _print({"dead": code, "partition": message.partition, "offset": message.offset})

    def trouble(self, reason: str) -> None:
        _print({"trouble": reason})


def _print(value: object) -> None:
    click.echo(json.dumps(value))
