"""The options of commands that serve: where their metrics are scraped, where their traces are sent."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from podium.cli.hints import print_notice
from podium.ports.telemetry import Telemetry
from podium.wiring.use_cases import open_telemetry

Command: TypeAlias = Callable[..., Any]


def telemetry_options(command: Command) -> Command:
    """`--metrics` and `--traces`."""
    metrics = click.option(
        "--metrics",
        envvar="PODIUM_METRICS",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus at /metrics; without a host, for this machine only. [default: "
        "PODIUM_METRICS, else none]",
    )
    traces = click.option(
        "--traces",
        metavar="URL",
        help="Send traces to an OpenTelemetry collector, like http://127.0.0.1:4318. [default: as OTEL_* variables "
        "say]",
    )
    return metrics(traces(command))


def is_typed(name: str) -> bool:
    """Whether an option is on the command line; a variable may be meant for other commands."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


@contextmanager
def opened_telemetry(metrics: str | None, traces: str | None) -> Iterator[Telemetry]:
    """Raises what `open_telemetry` does."""
    telemetry = open_telemetry(metrics, traces, print_notice)
    try:
        yield telemetry
    finally:
        telemetry.close()
