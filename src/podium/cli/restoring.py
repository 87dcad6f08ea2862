"""The directory of a run for a command: made again from the store if it is lost, with word of what could not be."""

from pathlib import Path

import click

from podium.log.runs import Run
from podium.ports.store import Store
from podium.runtime.restoring import restore_directory
from podium.runtime.rundir import RunDirectory
from podium.text import visible
from podium.wiring import payload_store, system_clock


async def directory_of(store: Store, runs: Path, run: Run) -> RunDirectory:
    """Beside the command's own output: on standard error."""
    directory = RunDirectory(runs, run.identity.run_id)
    if directory.is_lost:
        missing = await restore_directory(store, system_clock(), directory, run, payload_store)
        if missing is not None:
            _warn(directory, missing)
    return directory


def _warn(directory: RunDirectory, missing: list[str]) -> None:
    click.echo(f"{visible(str(directory.path))} was missing and is rebuilt from the store.", err=True)
    if missing:
        click.echo("Files of steps are in no store; the log mentions these, which are gone:", err=True)
        for name in missing:
            click.echo(f"  {visible(name)}", err=True)
