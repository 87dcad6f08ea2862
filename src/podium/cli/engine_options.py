"""Options for commands that use the server of an engine: its address, and the credentials."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.core import ParameterSource

from podium.cli.hints import remember_place
from podium.cli.paths import GivenPath
from podium.engines.conductor import DEFAULT_URL
from podium.engines.temporal import DEFAULT_ADDRESS, DEFAULT_NAMESPACE, DEFAULT_QUEUE
from podium.errors import InvalidConfiguration
from podium.log.engines import CONDUCTOR, LOCAL, TEMPORAL

if TYPE_CHECKING:
    from podium.engines.conductor.connection import Connection as ConductorConnection
    from podium.engines.temporal.connection import Connection

Command: TypeAlias = Callable[..., Any]
_META = "podium.engine"
_SECRETS: Final = ("api_key_file", "token_file")
# Options that apply to the server of one engine only.
_OF_CONDUCTOR: Final = frozenset({"url", "token_file"})
_OF_BOTH: Final = frozenset({"queue", "shared_runs"})


class EngineChoice:
    """The values that were given for these options."""

    def __init__(self) -> None:
        self.engine = LOCAL
        self.shared_runs = False
        self.facts: dict[str, Any] = {}
        self.api_key_file: Path | None = None
        self.token_file: Path | None = None
        # Those that are on the command line.
        self.given: dict[str, str] = {}

    @property
    def connection(self) -> "Connection | ConductorConnection":
        return self.conductor if self.engine == CONDUCTOR else self.temporal

    @property
    def temporal(self) -> "Connection":
        # Local runs do not need it.
        from podium.engines.temporal.connection import Connection

        self._refuse(_OF_CONDUCTOR, CONDUCTOR)
        facts = {name: value for name, value in self.facts.items() if name not in _OF_CONDUCTOR}
        return Connection(**facts, api_key=self.secret_of(TEMPORAL))

    @property
    def conductor(self) -> "ConductorConnection":
        from podium.engines.conductor.connection import Connection

        self._refuse(self.given.keys() - _OF_CONDUCTOR - _OF_BOTH, TEMPORAL)
        return Connection(self.facts["url"], self.facts["queue"], self.secret_of(CONDUCTOR))

    def require_engine(self) -> None:
        """Raises `UsageError` if a server was named that does not belong to the engine."""
        for name in sorted(self.given) if self.engine == LOCAL else ():
            engines = CONDUCTOR if name in _OF_CONDUCTOR else TEMPORAL
            if name in _OF_BOTH:
                engines = f"{TEMPORAL} or {CONDUCTOR}"
            raise click.UsageError(f"{self.given[name]} is for --engine {engines}.")

    def _refuse(self, names: "frozenset[str] | set[str]", engine: str) -> None:
        for name in sorted(names & self.given.keys()):
            raise click.UsageError(f"{self.given[name]} is for --engine {engine}.")

    def secret_of(self, engine: str) -> str | None:
        """The secret with which the server of an engine authenticates the client."""
        if engine == CONDUCTOR:
            return _secret(self.token_file, "--token-file", "PODIUM_CONDUCTOR_TOKEN")
        return _secret(self.api_key_file, "--api-key-file", "PODIUM_TEMPORAL_API_KEY")


def chosen_engine() -> EngineChoice:
    choice = click.get_current_context().meta.setdefault(_META, EngineChoice())
    assert isinstance(choice, EngineChoice)
    return choice


def _secret(path: Path | None, option: str, variable: str) -> str | None:
    if path is None:
        return os.environ.get(variable) or None
    try:
        found = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{option} {str(path)!r} cannot be read: {error}") from error
    if not found:
        raise InvalidConfiguration(f"{option} {str(path)!r} is empty")
    return found


def choose(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Stores an option for `chosen_engine()`."""
    choice = context.meta.setdefault(_META, EngineChoice())
    name = str(option.name)
    if name in ("engine", "shared_runs", *_SECRETS):
        setattr(choice, name, value)
    elif value is not None:
        choice.facts[name] = value
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and name != "engine":
        choice.given[name] = option.opts[0]
    if option.default != value and name not in _SECRETS:
        remember_place(option.opts[0], value if not isinstance(value, bool) else None)


def connection_options(command: Command) -> Command:
    """The command gets them from `chosen_engine()`."""
    file = GivenPath(dir_okay=False)
    options: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--address", {"default": DEFAULT_ADDRESS, "envvar": "PODIUM_TEMPORAL_ADDRESS", "metavar": "HOST:PORT",
                       "help": "Where the Temporal server is."}),
        ("--namespace", {"default": DEFAULT_NAMESPACE, "envvar": "PODIUM_TEMPORAL_NAMESPACE",
                         "help": "The namespace on the Temporal server."}),
        ("--url", {"default": DEFAULT_URL, "envvar": "PODIUM_CONDUCTOR_URL",
                   "help": "Where the Conductor server is."}),
        ("--token-file", {"type": file,
                          "help": "A file with the token for Conductor. [default: PODIUM_CONDUCTOR_TOKEN]"}),
        ("--queue", {"default": DEFAULT_QUEUE, "help": "The task queue that runs and workers share."}),
        ("--shared-runs", {"is_flag": True, "help": "All workers see one runs folder, under the same path."}),
        ("--tls", {"is_flag": True, "help": "Use TLS for Temporal, with the certificates of this host."}),
        ("--tls-ca", {"type": file, "help": "Certificate of the authority that signed the server's."}),
        ("--tls-cert", {"type": file, "help": "Certificate of this client."}),
        ("--tls-key", {"type": file, "help": "Private key of this client."}),
        ("--tls-server-name", {"help": "The name in the server's certificate."}),
        ("--api-key-file", {"type": file,
                            "help": "A file with the API key for Temporal. [default: PODIUM_TEMPORAL_API_KEY]"}),
    )  # fmt: skip
    for name, facts in reversed(options):
        add = click.option(
            name,
            **facts,
            expose_value=False,
            callback=choose,
            show_default="default" in facts,
            show_envvar=False,
        )
        command = add(command)
    return command


def engine_options(command: Command) -> Command:
    """For commands that drive runs, including those of other engines."""
    engine = click.option(
        "--engine",
        type=click.Choice([LOCAL, TEMPORAL, CONDUCTOR]),
        default=LOCAL,
        show_default=True,
        expose_value=False,
        callback=choose,
        help="Who drives the run: this process, or workers of a Temporal or Conductor server.",
    )
    return engine(connection_options(command))
