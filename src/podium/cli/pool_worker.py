"""`podium worker`: a worker of pools."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import click

from podium.cli.env_files import use_env_files
from podium.cli.hints import given_runs, print_notice
from podium.cli.storing import using_parts
from podium.cli.telemetry import log_notice
from podium.engines.run_host import HostView, RunHost
from podium.log.ids import check_id
from podium.operations.fleet import serve_pools
from podium.operations.hooks.posting import WebhookPoster
from podium.operations.parts import Parts
from podium.operations.schedules.ticking import Ticker, TickerView
from podium.ports.store import Store
from podium.ports.telemetry import Telemetry
from podium.text import visible
from podium.wiring.buses import relay_claim
from podium.wiring.endpoint_secrets import endpoint_secrets
from podium.wiring.engines import run_host
from podium.wiring.stores import runs_folder
from podium.wiring.webhooks import web_receivers

# The exit code that a shell reports for a process that was ended by SIGTERM.
_TERMINATED: Final = 128 + signal.SIGTERM
# After the second signal: time for steps to be killed and leases to be released.
_KILL_SECONDS: Final = 5.0
_SEVERAL_TENANTS: Final = (
    "warning: this worker serves {tenants}, and Podium does not isolate their steps from one another: they are "
    "processes of one user on one machine. Use one worker per tenant, each with a user of its own, unless these "
    "tenants trust each other."
)


def serve(
    pools: Sequence[str],
    tenants: Sequence[str],
    slots: int | None,
    drain: float,
    *,
    env_files: tuple[Path, ...],
    store: str | None,
    telemetry: Telemetry,
) -> int:
    tenants = tuple(dict.fromkeys(tenants))
    for tenant in tenants:
        check_id("tenant", tenant)
    for pool in pools:
        check_id("pool", pool)
    shares = frozenset(name for file in use_env_files(env_files) for name in file.values)
    if len(tenants) > 1:
        print_notice(_SEVERAL_TENANTS.format(tenants=_listed(tenants)))
    folder = runs_folder(given_runs())

    async def work(parts: Parts) -> bool:
        stopping = _Stopping(asyncio.get_running_loop())
        host = run_host(
            _observed(parts.store, telemetry),
            folder,
            pool=pools[0],
            other_pools=pools[1:],
            tenants=frozenset(tenants),
            slots=slots,
            view=_Shown(),
            shares=shares,
            telemetry=telemetry,
        )

        def ready(worker_id: str) -> None:
            of = "" if tenants == ("default",) else f" of {_listed(tenants)}"
            word = "pool" if len(host.pools) == 1 else "pools"
            click.echo(
                f"ready: worker {worker_id} serves {word} {_listed(host.pools)}{of}; press Ctrl-C to stop"
            )
            sys.stdout.flush()

        ticker = Ticker(parts, host.pools, tenants, _Ticks())
        async with _measuring(parts, tenants, host):
            await serve_pools(
                parts,
                host,
                tenants,
                stopping.stop,
                ticker=ticker,
                poster=WebhookPoster(
                    parts, tenants, web_receivers, endpoint_secrets(shares), print_notice, relay_claim()
                ),
                drain=drain,
                hurry=stopping.hurry,
                on_ready=ready,
            )
        return stopping.hurry.is_set()

    return _TERMINATED if using_parts(store, work, create=True, telemetry=telemetry) else 0


@asynccontextmanager
async def _measuring(parts: Parts, tenants: Sequence[str], host: RunHost) -> AsyncIterator[None]:
    """Only if the process exports metrics."""
    if not parts.telemetry.is_on:
        yield
        return
    from podium.operations.measuring import keep_measuring, measure_loop_lag

    tasks = [
        asyncio.create_task(keep_measuring(parts, tenants, lambda: host.running)),
        asyncio.create_task(measure_loop_lag(parts.telemetry)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _observed(store: Store, telemetry: Telemetry) -> Store:
    if not telemetry.is_on:
        return store
    from podium.operations.measuring import observed

    return observed(store, telemetry)


class _Stopping:
    """The first signal drains the worker, the second one stops its steps."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop, self.hurry = asyncio.Event(), asyncio.Event()
        self._loop = loop
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if not self.stop.is_set():
            self.stop.set()
        elif not self.hurry.is_set():
            self.hurry.set()
            # If the store does not answer, leases lapse.
            self._loop.call_later(_KILL_SECONDS, os._exit, _TERMINATED)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(visible(repr(name)) for name in names)


class _Ticks(TickerView):
    def trouble(self, reason: str) -> None:
        log_notice(f"schedules: {reason}")


class _Shown(HostView):
    def trouble(self, reason: str) -> None:
        log_notice(reason)
