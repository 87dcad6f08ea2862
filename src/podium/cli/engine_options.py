"""Options for commands that use a Temporal server: where it is, and who asks."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from podium.cli.hints import remember_place
from podium.cli.paths import GivenPath
from podium.engines.temporal import DEFAULT_ADDRESS, DEFAULT_NAMESPACE, DEFAULT_QUEUE
from podium.errors import InvalidConfiguration

if TYPE_CHECKING:
    from podium.engines.temporal.connection import Connection

Command: TypeAlias = Callable[..., Any]
_META = "podium.engine"


class EngineChoice:
    """What was given of these options."""

    def __init__(self) -> None:
        self.engine = "local"
        self.shared_runs = False
        self.facts: dict[str, Any] = {}
        self.api_key_file: Path | None = None

    @property
    def connection(self) -> "Connection":
        # A local run needs none.
        from podium.engines.temporal.connection import Connection

        return Connection(**self.facts, api_key=self.api_key)

    @property
    def api_key(self) -> str | None:
        return _api_key(self.api_key_file)


def chosen_engine() -> EngineChoice:
    choice = click.get_current_context().meta.setdefault(_META, EngineChoice())
    assert isinstance(choice, EngineChoice)
    return choice


def _api_key(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get("PODIUM_TEMPORAL_API_KEY") or None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"--api-key-file {str(path)!r} cannot be read: {error}") from error


def _fact(context: click.Context, option: click.Parameter, value: Any) -> None:
    choice = context.meta.setdefault(_META, EngineChoice())
    name = str(option.name)
    if name in ("engine", "shared_runs", "api_key_file"):
        setattr(choice, name, value)
    elif value is not None:
        choice.facts[name] = value
    if option.default != value and not name.startswith("api_key"):
        remember_place(option.opts[0], value if not isinstance(value, bool) else None)


def connection_options(command: Command) -> Command:
    """They reach the command by `chosen_engine()`."""
    file = GivenPath(dir_okay=False)
    options: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--address", {"default": DEFAULT_ADDRESS, "envvar": "PODIUM_TEMPORAL_ADDRESS", "metavar": "HOST:PORT",
                       "help": "Where the Temporal server is."}),
        ("--namespace", {"default": DEFAULT_NAMESPACE, "envvar": "PODIUM_TEMPORAL_NAMESPACE",
                         "help": "The namespace on the server."}),
        ("--queue", {"default": DEFAULT_QUEUE, "help": "The task queue that runs and workers share."}),
        ("--shared-runs", {"is_flag": True, "help": "All workers see one runs folder, under the same path."}),
        ("--tls", {"is_flag": True, "help": "Use TLS, with the certificates of this host."}),
        ("--tls-ca", {"type": file, "help": "Certificate of the authority that signed the server's."}),
        ("--tls-cert", {"type": file, "help": "Certificate of this client."}),
        ("--tls-key", {"type": file, "help": "Private key of this client."}),
        ("--tls-server-name", {"help": "The name in the server's certificate."}),
        ("--api-key-file", {"type": file, "help": "A file with the API key. [default: PODIUM_TEMPORAL_API_KEY]"}),
    )  # fmt: skip
    for name, facts in reversed(options):
        add = click.option(
            name,
            **facts,
            expose_value=False,
            callback=_fact,
            show_default="default" in facts,
            show_envvar=False,
        )
        command = add(command)
    return command


def engine_options(command: Command) -> Command:
    """For commands that drive runs, also on another engine."""
    engine = click.option(
        "--engine",
        type=click.Choice(["local", "temporal"]),
        default="local",
        show_default=True,
        expose_value=False,
        callback=_fact,
        help="Who drives the run: this process, or workers of a Temporal server.",
    )
    return engine(connection_options(command))
