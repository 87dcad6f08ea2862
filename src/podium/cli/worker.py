"""`podium worker`: carry out runs of pools, or runs for a Temporal or Conductor server."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from podium.cli.engine_options import choose, chosen_engine, connection_options
from podium.cli.env_files import env_file_option, use_env_files
from podium.cli.hints import given_runs
from podium.cli.storing import store_option, using_parts
from podium.cli.telemetry import is_typed, log_options, opened_telemetry, start_logs, telemetry_options
from podium.log.engines import CONDUCTOR, LOCAL, TEMPORAL
from podium.log.ids import DEFAULT_POOL, DEFAULT_TENANT
from podium.operations.parts import Parts
from podium.operations.serving import serve_runs
from podium.text import visible
from podium.wiring.server_engines import conductor_worker, temporal_worker
from podium.wiring.stores import runs_folder, store_url

_DRAIN_SECONDS = 10.0
_SLOTS = 8
_RUNS = 256


@click.command()
@click.option(
    "--engine",
    type=click.Choice([LOCAL, TEMPORAL, CONDUCTOR]),
    default=LOCAL,
    show_default=True,
    expose_value=False,
    callback=choose,
    help="The engine of the runs; local: runs of the pools that --pool names.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 86_400),
    default=_DRAIN_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long running steps may take to end when the worker is stopped; then other workers repeat them.",
)
@click.option(
    "--slots",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help=f"How many at the same time: steps on Conductor, where 0 only decides [default: {_SLOTS}]; runs of a pool "
    f"[default: {_RUNS}].",
)
@click.option(
    "--pool",
    "pools",
    metavar="NAME",
    multiple=True,
    help=f"Local: carry out runs of this pool; may be repeated. [default: {DEFAULT_POOL}]",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    help=f"Local: carry out runs of this tenant; may be repeated. [default: {DEFAULT_TENANT}]",
)
@click.option("--steps-only", is_flag=True, help="Conductor: carry out steps, and decide about no run.")
@connection_options
@env_file_option
@telemetry_options
@log_options
@store_option
def worker(
    drain: float,
    slots: int | None,
    pools: tuple[str, ...],
    tenants: tuple[str, ...],
    steps_only: bool,
    env_files: tuple[Path, ...],
    metrics: str | None,
    traces: str | None,
    log_format: str | None,
    log_level: str,
    store: str | None,
) -> int:
    """Carry out runs until it is stopped: runs of pools, many at the same time, and those that another worker of the
    pool left behind.

    Steps of a run are processes of the worker's user, whichever tenant the run belongs to: run one worker per tenant,
    each as a user of its own. Steps get a small environment and the secrets that the worker finds for the tenant.

    With --engine temporal or conductor it carries out runs that were started with `podium run --engine ...`. Such a
    worker, unless --shared-runs is given, serves the runs that were started on its host, and its steps get its
    environment.

    A worker needs the store that the runs are in. Several workers can serve one pool or queue. Ctrl-C or SIGTERM stops
    a worker: it starts nothing more and gives running steps the time to --drain; a second one stops them immediately.

    \b
    podium worker
    podium worker --pool nightly --pool reports --slots 64 --tenant acme
    podium worker --engine temporal --address 127.0.0.1:7233
    podium worker --engine conductor --url http://127.0.0.1:8080 --slots 4
    podium worker --engine temporal --store postgresql://db/podium --shared-runs --runs /shared/runs
    """
    start_logs(log_format, log_level)
    choice = chosen_engine()
    if choice.engine == LOCAL:
        choice.require_engine()
        from podium.cli.pool_worker import serve

        if steps_only:
            raise click.UsageError("--steps-only is for --engine conductor.")
        if slots == 0:
            raise click.UsageError(
                "With --slots 0 the worker would carry out no run: write --slots 1 or more, or leave it out for "
                f"{_RUNS}. 0 is for --engine conductor."
            )
        with opened_telemetry(metrics, traces) as telemetry:
            return serve(
                pools or (DEFAULT_POOL,),
                tenants or (DEFAULT_TENANT,),
                slots,
                drain,
                env_files=env_files,
                store=store,
                telemetry=telemetry,
            )
    if is_typed("metrics") or is_typed("traces"):
        raise click.UsageError("--metrics and --traces are for --engine local.")
    if pools or tenants:
        raise click.UsageError("--pool and --tenant are for --engine local.")
    if choice.engine == TEMPORAL and (slots is not None or steps_only):
        raise click.UsageError("--slots and --steps-only are for --engine conductor.")
    if steps_only and slots == 0:
        raise click.UsageError("With --steps-only and --slots 0 the worker would do nothing.")
    connection = choice.connection
    use_env_files(env_files)
    folder = runs_folder(given_runs())

    async def work(parts: Parts) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        url, shared = store_url(store, folder), choice.shared_runs
        queues: tuple[str, ...]
        if choice.engine == CONDUCTOR:
            on_conductor = conductor_worker(
                *(parts, folder, url, choice.conductor),
                shared_runs=shared,
                slots=_SLOTS if slots is None else slots,
                decides=not steps_only,
                drain=drain,
            )
            serve, queues = on_conductor.serve, (on_conductor.domain.name,)
        else:
            on_temporal = temporal_worker(
                parts.store, folder, url, choice.temporal, shared_runs=shared, drain=drain
            )
            serve, queues = on_temporal.serve, on_temporal.queues.served
        await serve_runs(parts, serve, stop, lambda: _say_ready(queues, connection.place))

    using_parts(store, work, create=True)
    return _exit()


def _say_ready(queues: tuple[str, ...], place: str) -> None:
    click.echo(
        f"ready: serving {', '.join(visible(repr(queue)) for queue in queues)} of {visible(place)}; "
        "press Ctrl-C to stop"
    )
    sys.stdout.flush()


def _exit() -> NoReturn:
    """Exits without finalizing the interpreter, during which the SDK sometimes aborts the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
