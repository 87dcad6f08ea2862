"""`podium store`: look after the place where runs are kept."""

import asyncio
from pathlib import Path

import click
import msgspec

from podium.cli.hints import given_runs
from podium.cli.output import print_json
from podium.cli.paths import GivenPath
from podium.cli.storing import json_option, store_option, using_parts
from podium.operations.maintaining import back_up_store, check_store, store_stats, vacuum_store
from podium.text import visible
from podium.wiring.rebuilding import rebuild_at
from podium.wiring.stores import check_store_name, runs_folder, use_configured_permissions

_PROBLEMS = 1


@click.group()
def store() -> None:
    """Look after the store.

    Podium never removes or changes anything here by itself; see also `podium prune` and `podium export`.
    """


@store.command()
@store_option
def migrate(store: str | None) -> None:
    """Bring the tables up to date; makes the store if there is none.

    Opening a store does the same. This command is for doing it at a time of your choosing.
    """

    stats = using_parts(store, store_stats, create=True)
    click.echo(f"the store is at schema version {stats.schema_version}")


@store.command()
@store_option
@json_option
def check(store: str | None, as_json: bool) -> int:
    """Look for anything wrong. Exit code 1 if there is."""

    problems = using_parts(store, check_store)
    if as_json:
        print_json({"problems": problems})
    else:
        for problem in problems:
            click.echo(problem, err=True)
        if not problems:
            click.echo("the store is sound")
    return _PROBLEMS if problems else 0


@store.command()
@store_option
@json_option
def stats(store: str | None, as_json: bool) -> None:
    """Count what the store keeps."""

    found = using_parts(store, store_stats)
    counted = msgspec.structs.asdict(found)
    if as_json:
        print_json(counted)
        return
    for name, value in counted.items():
        click.echo(f"{name.replace('_', ' '):15} {value}")


@store.command()
@store_option
def vacuum(store: str | None) -> None:
    """Return the disk space of removed runs (VACUUM). Blocks writers while it runs."""

    using_parts(store, vacuum_store)
    click.echo("done")


@store.command()
@store_option
@json_option
def rebuild(store: str, as_json: bool) -> int:
    """Make a lost store again from run directories.

    Every runs/RUN with logs/events.jsonl becomes a run of the new store: its events, plan, workflow file and large
    values. Leases, the outbox and limits are not rebuilt. Run directories are read, never changed.

    The log in a directory is written up to a quarter of a second after the store's. So the last events before a crash
    may be missing, and what they recorded is done again: check open runs before `podium resume RUN`. A step with
    `idempotent: false` that may have started is not repeated: it is in doubt.

    A store that has runs is refused (exit code 64). Exit code 1: a run could not be rebuilt, or not all of it.

    \b
    Example:
      podium store rebuild
      podium runs list
      podium resume RUN
    """
    use_configured_permissions()
    rebuilt = asyncio.run(rebuild_at(store, runs_folder(given_runs())))
    if as_json:
        print_json([{**one._asdict(), "rebuilt": one.status is not None} for one in rebuilt])
    else:
        for one in rebuilt:
            how = f"{one.status.lower()}, {one.events} events" if one.status else "not rebuilt"
            click.echo(f"{visible(one.run_id)}: {how}")
            for note in one.notes:
                click.echo(f"  {visible(note)}")
        click.echo(f"{sum(one.status is not None for one in rebuilt)} of {len(rebuilt)} runs rebuilt")
    return _PROBLEMS if any(one.status is None or one.notes for one in rebuilt) else 0


@store.command()
@click.argument("file", type=GivenPath(dir_okay=False))
@store_option
def backup(file: Path, store: str | None) -> None:
    """Copy the store into FILE while it is in use.

    The copy is a store of its own: `podium runs list --store FILE`. Open runs continue from it, on this machine or
    another: `podium resume RUN --store FILE`. Files of steps and what they printed are in the run directories only:
    copy those, too. An existing FILE is not overwritten.
    """
    if file.exists():
        raise click.UsageError(f"'{file}' exists; name a file that does not.")
    check_store_name(file)

    using_parts(store, lambda parts: back_up_store(parts, file))
    click.echo(f"copied to {file}")
