"""`podium registration`: nodes are registered in Consul and PostgreSQL by events of a bus."""

import asyncio
import re
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from podium.cli.app import INVALID_FILE
from podium.cli.foreground import compiled_workflow
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.registration_views import (
    JsonServeView,
    LinesServeView,
    print_drift,
    print_status,
)
from podium.cli.registration_world import (
    Addresses,
    Contract,
    opened_services,
    opened_table,
    opened_world,
)
from podium.cli.storing import json_option, store_option, tenant_option, using_parts, using_store
from podium.cli.telemetry import opened_telemetry, telemetry_options
from podium.nodes.registration.reading import CONTRACT, config_of, registration_config, registration_plan
from podium.operations.parts import Parts
from podium.operations.registration.open_runs import OpenRuns
from podium.operations.registration.place import Place
from podium.operations.registration.reconciling import reconcile as reconcile_catalogs
from podium.operations.registration.serving import RegistrationService, ServeSettings
from podium.operations.registration.status import registration_status
from podium.operations.retention import parse_age
from podium.ports.store import Store
from podium.ports.telemetry import Telemetry
from podium.wiring.buses import relay_claim
from podium.wiring.node_ports import MEMORY

_SECONDS: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
_WATCH_SECONDS: Final = 2.0


@click.group()
def registration() -> None:
    """Register nodes in Consul and PostgreSQL, by events of a bus.

    Nodes introduce themselves on the bus, acknowledge, and send heartbeats; their life is followed and published.
    docs/registration.md explains it.
    """


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--namespace",
            required=True,
            envvar="PODIUM_NAMESPACE",
            help="The namespace in the names of topics; runs have it as their project. [default: PODIUM_NAMESPACE]",
        ),
        click.option(
            "--env",
            required=True,
            envvar="PODIUM_ENV",
            help="The environment in the names of topics; runs have it as theirs. [default: PODIUM_ENV]",
        ),
    ):
        command = option(command)
    return command


_consul_option = click.option(
    "--consul",
    metavar="ADDRESS",
    help="Consul: http://HOST:PORT; its token is the secret PODIUM_CONSUL_TOKEN. memory: for trying things out. "
    "[default: the secret PODIUM_CONSUL]",
)
_schema_option = click.option(
    "--schema",
    metavar="NAME",
    help="The schema of the registration tables: one for each environment and namespace. "
    "[default: podium_registration]",
)
_postgres_option = click.option(
    "--postgres",
    metavar="ADDRESS",
    help="The database of the registration tables: postgresql://HOST/DATABASE. memory: for trying things out. "
    "[default: the secret PODIUM_REGISTRATION_DB]",
)


def _parse_seconds(_context: click.Context, _option: click.Parameter, value: str) -> float:
    found = _SECONDS.fullmatch(value)
    seconds = float(found[1]) * _UNITS[found[2]] if found is not None else 0.0
    if not 0.01 <= seconds <= 60:
        raise click.BadParameter("use 10ms to 60s, like 1s or 500ms.")
    return seconds


def _parse_keep(_context: click.Context, _option: click.Parameter, value: str) -> timedelta:
    age = parse_age(value)
    if age is None:
        raise click.BadParameter("use an age like 7d, 12h or 30m.")
    return age


@registration.command()
@_place_options
@click.option(
    "--bus",
    "bus",
    required=True,
    envvar="PODIUM_BUS",
    metavar="ADDRESS",
    help="Where the topics are: kafka://HOST:PORT or jsonl:FOLDER/. [default: PODIUM_BUS]",
)
@_consul_option
@_postgres_option
@_schema_option
@click.option(
    "--contract",
    type=GivenPath(dir_okay=False, exists=True),
    metavar="FILE",
    help="A copy of the contract with other timeouts or limits. [default: the one of this package]",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 10_000),
    default=256,
    show_default=True,
    help="Maximum number of open runs; while all are taken, messages stay on the bus.",
)
@click.option(
    "--tick",
    default="1s",
    show_default=True,
    callback=_parse_seconds,
    help="How often the time is published.",
)
@click.option(
    "--keep", default="7d", show_default=True, callback=_parse_keep, help="How long ended runs are kept."
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds that open runs get after SIGTERM.",
)
@click.option("--create-topics", is_flag=True, help="Create topics that do not exist.")
@telemetry_options
@json_option
@tenant_option
@store_option
def serve(
    env: str,
    namespace: str,
    bus: str,
    consul: str | None,
    postgres: str | None,
    schema: str | None,
    contract: Path | None,
    slots: int,
    tick: float,
    keep: timedelta,
    drain: float,
    create_topics: bool,
    metrics: str | None,
    traces: str | None,
    as_json: bool,
    tenant: str,
    store: str | None,
) -> int:
    """Run the registration service until Ctrl-C or SIGTERM. Any number of instances may run side by side.

    It reads five topics (introspections, requests, acknowledgements, heartbeats, ticks) as one consumer group. A
    message is committed when what follows from it is durable: nothing is lost, and nothing is done twice. A message
    that can never be used goes to TOPIC.dead with a code. Services that are away are waited for. Exit codes: 0 stopped,
    64 wrong options, 65 invalid contract, 69 something does not answer at the start, 78 a topic is missing, a token is
    refused or a table has another version.

    \b
    podium registration serve --env prod --namespace shop --bus kafka://127.0.0.1:9092 \\
        --consul http://127.0.0.1:8500 --postgres postgresql://127.0.0.1/registration
    podium registration serve --env test --namespace demo --bus jsonl:topics/ --create-topics \\
        --consul memory: --postgres memory:
    """
    place = Place(env, namespace, tenant)
    place.check()
    chosen = _contract(contract)
    if chosen is None:
        return INVALID_FILE
    addresses = Addresses(bus, consul, postgres, schema)
    settings = ServeSettings(
        place,
        chosen.config,
        chosen.plan.metadata.plan_id,
        slots=slots,
        tick=tick,
        keep=keep,
        drain=drain,
        claim_ttl=relay_claim(),
    )
    view = (JsonServeView if as_json else LinesServeView)(place.name)

    async def work(telemetry: Telemetry, opened: Store) -> None:
        async with opened_world(
            opened,
            addresses,
            place,
            chosen,
            slots=slots,
            create_topics=create_topics,
            view=view,
            telemetry=telemetry,
        ) as world:
            service = RegistrationService(world, settings, view)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, partial(_stop, loop, service))
            await service.serve()

    with opened_telemetry(metrics, traces) as telemetry:
        using_store(store, partial(work, telemetry), create=True)
    return 0


def _stop(loop: asyncio.AbstractEventLoop, service: RegistrationService) -> None:
    """The first signal drains the service; a second one has its usual effect."""
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    service.stop()


def _contract(file: Path | None) -> Contract | None:
    """None if it is invalid, which was reported."""
    if file is None:
        return Contract(registration_plan(), registration_config(), CONTRACT.read_bytes())
    name, content = read_file(str(file))
    plan = compiled_workflow(content, name, None)
    return Contract(plan, config_of(plan), content) if plan is not None else None


@registration.command()
@_place_options
@_postgres_option
@_schema_option
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@json_option
@tenant_option
@store_option
def status(
    env: str,
    namespace: str,
    postgres: str | None,
    schema: str | None,
    watch: bool,
    as_json: bool,
    tenant: str,
    store: str | None,
) -> int:
    """Show how registrations are, and what the serving processes of this machine do.

    The counts by state and the oldest deadline come from the tables. Lag, breakers, dead letters and drift are what
    each serving process last wrote about itself, where runs are kept (--runs); what is older than 15 seconds is marked
    as stale.

    \b
    podium registration status --env prod --namespace shop --postgres postgresql://127.0.0.1/registration --watch
    """
    place = Place(env, namespace, tenant)
    place.check()

    async def work(parts: Parts) -> None:
        await parts.require("run.view", place.tenant_id, records=False)
        async with AsyncExitStack() as stack:
            # Only the process that has tables in memory can read them.
            opening = opened_table(Addresses("", None, postgres, schema), place)
            table = await stack.enter_async_context(opening) if postgres != MEMORY else None
            while True:
                now = parts.clock.now()
                found = await registration_status(table, parts.runs, place, now)
                print_status(place.name, found, now, as_json=as_json)
                if not watch:
                    return
                await asyncio.sleep(_WATCH_SECONDS)

    using_parts(store, work, create=True)
    return 0


@registration.command()
@_place_options
@_consul_option
@_postgres_option
@_schema_option
@json_option
@tenant_option
@store_option
def reconcile(
    env: str,
    namespace: str,
    consul: str | None,
    postgres: str | None,
    schema: str | None,
    as_json: bool,
    tenant: str,
    store: str | None,
) -> int:
    """Compare Consul and the table with what they should have, and repair differences. `serve` does it every minute.

    In Consul, differences are repaired immediately; a row of the table is repaired by the next run of its node, which
    `serve` makes. A node with an open run is left alone: name the store of `serve`. Exit codes: 0, also if something
    was repaired; 69 a service does not answer.

    \b
    podium registration reconcile --env prod --namespace shop \\
        --consul http://127.0.0.1:8500 --postgres postgresql://127.0.0.1/registration
    """
    place = Place(env, namespace, tenant)
    place.check()
    if MEMORY in (consul, postgres):
        raise click.UsageError(
            f"reconcile compares catalogs that other processes see; what {MEMORY} has is known to its process only, "
            "which compares it every minute."
        )
    addresses = Addresses("", consul, postgres, schema)

    async def work(parts: Parts) -> None:
        await parts.require("run.start", place.tenant_id, records=False)
        async with opened_services(addresses, place) as services, opened_table(addresses, place) as table:
            runs = OpenRuns(parts.store, place)
            report = await reconcile_catalogs(services, table, parts.clock.now(), runs.has)
            print_drift(report, as_json=as_json)

    using_parts(store, work, create=True)
    return 0
