"""Options of commands that serve: where their metrics are scraped, where their traces are sent, and how their log
is written.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import click
from click.core import ParameterSource

from podium.cli.hints import print_notice, redirect_notices
from podium.ports.telemetry import Telemetry
from podium.telemetry.log_lines import FORMATS, LEVELS, configure_logs
from podium.wiring.use_cases import open_telemetry

Command: TypeAlias = Callable[..., Any]
_LOG: Final = logging.getLogger("podium.cli")


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


def log_options(command: Command) -> Command:
    """`--log-format` and `--log-level`."""
    format_ = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        help="How lines of the log are written to standard error. [default: text at a terminal, else json]",
    )
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="The least important lines of the log that are written.",
    )
    return format_(level(command))


def start_logs(log_format: str | None, log_level: str) -> None:
    """From here on, notices are lines of the log, too."""
    configure_logs(log_format, log_level)
    redirect_notices(log_notice)


def log_notice(text: str) -> None:
    """Of no level of their own: shown whatever level is asked for, except for `error`."""
    _LOG.warning("%s", text.removeprefix("warning: "))


def is_typed(name: str) -> bool:
    """Whether an option is on the command line; a variable may be meant for other commands."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


@contextmanager
def opened_telemetry(metrics: str | None, traces: str | None) -> Iterator[Telemetry]:
    """Raises what `open_telemetry` raises."""
    telemetry = open_telemetry(metrics, traces, print_notice)
    try:
        yield telemetry
    finally:
        telemetry.close()
