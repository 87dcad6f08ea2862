"""`--env-file`: variables for the steps of a run, given again whenever it is resumed."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from podium.cli.hints import remember_places
from podium.cli.paths import GivenPath
from podium.errors import PodiumError
from podium.text import reason_of, visible

if TYPE_CHECKING:
    from podium.operations.env_files import EnvFile
    from podium.ports.engine import EnvFiles

Command: TypeAlias = Callable[..., Any]


def env_file_option(command: Command) -> Command:
    """Of a command that serves many runs."""
    return _env_file_option(command)


def env_file_of_run_option(command: Command) -> Command:
    """Of a command for one run: commands that it suggests for that run need the files again."""
    return _env_file_option(command, callback=_remember)


def _env_file_option(command: Command, **more: Any) -> Command:
    return click.option(
        "--env-file",
        "env_files",
        multiple=True,
        type=GivenPath(exists=True),
        help="More environment variables, one NAME=value a line. Repeat it for more files: later ones win.",
        **more,
    )(command)


def _remember(_context: click.Context, option: click.Parameter, paths: Sequence[Path]) -> Sequence[Path]:
    remember_places(option.opts[0], paths)
    return paths


def use_env_files(paths: Sequence[Path], declared: Sequence[Path] = ()) -> "tuple[EnvFile, ...]":
    """Read them and set their variables for this process; its children inherit them. `declared`: those of the
    workflow.
    """
    files = tuple(_read(path) for path in paths)
    for file in files:
        os.environ.update(file.values)
    if not declared:
        return files
    from podium.operations.env_files import use_declared

    return use_declared(declared, files)


def facts_to_keep(files: "Sequence[EnvFile]") -> "EnvFiles | None":
    """What a new run stores about its files."""
    if not files:
        return None
    from podium.operations.env_files import kept_facts

    return kept_facts(files)


def _read(path: Path) -> "EnvFile":
    from podium.files import FileNotUsable
    from podium.operations.env_files import read_env_file

    try:
        return read_env_file(path)
    except FileNotUsable:
        raise
    except (OSError, ValueError, PodiumError) as error:
        raise click.UsageError(f"'{visible(str(path))}' cannot be read: {reason_of(error)}") from error
