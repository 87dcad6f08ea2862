"""`--env-file`: variables for the steps of a run, given again whenever it is resumed."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from podium.cli.paths import GivenPath
from podium.errors import PodiumError
from podium.text import reason_of, visible

if TYPE_CHECKING:
    from podium.operations.env_files import EnvFile
    from podium.ports.engine import EnvFiles

Command: TypeAlias = Callable[..., Any]
# Far more than the environment of a process can hold.
_MAX_BYTES: Final = 1 << 20


def env_file_option(command: Command) -> Command:
    return click.option(
        "--env-file",
        "env_files",
        multiple=True,
        type=GivenPath(exists=True),
        help="More environment variables, one NAME=value a line. Repeat it for more files: later ones win.",
    )(command)


def use_env_files(paths: Sequence[Path]) -> "tuple[EnvFile, ...]":
    """Read them and set what they say for this process; its children inherit it."""
    files = tuple(_read(path) for path in paths)
    for file in files:
        os.environ.update(file.values)
    return files


def facts_to_keep(files: "Sequence[EnvFile]") -> "EnvFiles | None":
    """What a new run keeps of its files."""
    if not files:
        return None
    from podium.operations.env_files import kept_facts

    return kept_facts(files)


def _read(path: Path) -> "EnvFile":
    from podium.files import FileNotUsable, read_regular
    from podium.operations.env_files import EnvFile
    from podium.secrets.dotenv import parse_dotenv

    try:
        content = read_regular(path, max_bytes=_MAX_BYTES, what="lines NAME=value")
        return EnvFile(path, parse_dotenv(content.decode(), str(path)))
    except FileNotUsable:
        raise
    except (OSError, ValueError, PodiumError) as error:
        raise click.UsageError(f"'{visible(str(path))}' cannot be read: {reason_of(error)}") from error
