"""`podium up`: the server and a worker, as two processes on one store."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import click

from podium.cli.hints import given_runs
from podium.cli.paths import GivenPath
from podium.cli.storing import store_option, using_parts
from podium.cli.telemetry import is_typed, log_notice, log_options, start_logs, telemetry_options
from podium.environment import hide_environment
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.runtime.listening import Listening
from podium.runtime.supervising import Child, Supervisor
from podium.wiring.stores import runs_folder, store_url

PORT: Final = 8600


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0: any free one, which is printed.",
)
@click.option("--tls-cert", type=GivenPath(dir_okay=False), help="A certificate, as PEM.")
@click.option("--tls-key", type=GivenPath(dir_okay=False), help="Its private key, as PEM.")
@click.option("--behind-proxy", is_flag=True, help="Another server in front of this one does TLS.")
@click.option("--no-worker", is_flag=True, help="Only the server; workers run elsewhere.")
@telemetry_options
@log_options
@store_option
def up(
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    no_worker: bool,
    metrics: str | None,
    traces: str | None,
    log_format: str | None,
    log_level: str,
    store: str | None,
) -> int:
    """Start the server and a worker, and keep both running until it is stopped.

    The server answers the API (docs/api.md), the worker carries out runs of the pool `default`. They are two processes
    on one store, so that neither keeps the other waiting. --metrics is for the worker: the server shows its own
    at /api/v1/metrics. Ctrl-C or SIGTERM stops both; a second one also stops running steps.

    \b
    podium up
    podium up --port 0 --no-worker
    podium up --store postgresql://db/podium --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
    """
    if no_worker and is_typed("metrics"):
        raise click.UsageError("--metrics is for the worker; the server shows its own at /api/v1/metrics.")
    if not has_extra("server"):
        raise ExtraMissing(install_hint("server"))
    Listening(host, port, tls_cert, tls_key, behind_proxy).check()
    start_logs(log_format, log_level)
    # Also checks that there is a store, or that it can be created: otherwise both processes would fail.
    using_parts(store, lambda parts: parts.require_everywhere("worker.serve"), create=True)
    folder = runs_folder(given_runs())
    # Not as arguments: the address of a store may contain a password, and arguments are visible to all users.
    environment = {**os.environ, "PODIUM_STORE": store_url(store, folder), "PODIUM_RUNS": str(folder)}
    environment.pop("PODIUM_METRICS", None)
    serve = [sys.executable, "-m", "podium.server", "--host", host, "--port", str(port)]
    for option, value in (("--tls-cert", tls_cert), ("--tls-key", tls_key)):
        serve += [option, str(value)] if value is not None else []
    serve += ["--behind-proxy"] if behind_proxy else []
    for_both = ["--traces", traces] if traces is not None else []
    for_both += ["--log-format", log_format] if log_format is not None else []
    for_both += ["--log-level", log_level]
    children = [Child("server", [*serve, *for_both], environment)]
    if not no_worker:
        work = [sys.executable, "-m", "podium", "worker"]
        work += ["--metrics", metrics] if metrics is not None else []
        children.append(Child("worker", [*work, *for_both], environment))
    # Steps run as the same user: they could read it there.
    hide_environment()
    return asyncio.run(_supervise(children))


async def _supervise(children: list[Child]) -> int:
    supervisor = Supervisor(children, log_notice)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, supervisor.stop)
    return await supervisor.run()
