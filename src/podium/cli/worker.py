"""`podium worker`: carry out runs for a Temporal server."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from podium.cli.engine_options import chosen_engine, connection_options
from podium.cli.env_files import env_file_option, use_env_files
from podium.cli.hints import given_runs
from podium.cli.storing import store_option, using_parts
from podium.operations.parts import Parts
from podium.operations.serving import serve_runs
from podium.text import visible
from podium.wiring import runs_folder, store_url, temporal_worker

_DRAIN_SECONDS = 10.0


@click.command()
@click.option(
    "--engine", type=click.Choice(["temporal"]), required=True, expose_value=False, help="Whose runs."
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 86_400),
    default=_DRAIN_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long running steps may take to end when the worker is stopped; then other workers repeat them.",
)
@connection_options
@env_file_option
@store_option
def worker(drain: float, env_files: tuple[Path, ...], store: str | None) -> int:
    """Carry out runs that were started with `podium run --engine temporal`, until it is stopped.

    A worker needs the store that the runs are in and, unless --shared-runs is given, serves the runs that were started
    on its host. Steps get its environment and the secrets that it finds. Several workers can serve one queue. Ctrl-C or
    SIGTERM stops a worker: it starts nothing more and gives running steps the time to --drain.

    \b
    podium worker --engine temporal --address 127.0.0.1:7233
    podium worker --engine temporal --store postgresql://db/podium --shared-runs --runs /shared/runs
    """
    choice = chosen_engine()
    use_env_files(env_files)
    folder = runs_folder(given_runs())

    async def work(parts: Parts) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        serving = temporal_worker(
            parts.store,
            folder,
            store_url(store, folder),
            choice.connection,
            shared_runs=choice.shared_runs,
            drain=drain,
        )
        await serve_runs(
            parts,
            serving.serve,
            stop,
            lambda: _say_ready(serving.queues.served, choice.connection.address),
        )

    using_parts(store, work, create=True)
    _exit()


def _say_ready(queues: tuple[str, ...], address: str) -> None:
    click.echo(
        f"ready: serving {', '.join(visible(repr(queue)) for queue in queues)} of Temporal at {visible(address)}; "
        "press Ctrl-C to stop"
    )
    sys.stdout.flush()


def _exit() -> NoReturn:
    """Without taking the interpreter down: the SDK at times aborts the process then."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
