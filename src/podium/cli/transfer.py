"""`podium export`, `import` and `prune`: moving runs out of and into a store."""

import sys
from pathlib import Path
from typing import Final

import click

from podium.cli.hints import say
from podium.cli.output import print_json, spelled_json
from podium.cli.paths import GivenPath
from podium.cli.storing import json_option, run_argument, store_option, tenant_option, using_parts, using_run
from podium.files import read_regular
from podium.log.ids import RunId
from podium.log.transitions import TERMINAL, RunStatus
from podium.operations.expired_files import Expired, prune_expired
from podium.operations.parts import Parts
from podium.operations.pruning import Pruned, prune_by_policy
from podium.operations.retention import MAX_POLICY_BYTES, RetentionPolicy, parse_age, read_policy
from podium.operations.transfer import check_header, export_with_files, put_run
from podium.text import visible

# An import is one transaction and is held in memory.
_MAX_BYTES: Final = 4 << 30
_MAX_HEADER: Final = 1 << 20


@click.command("export")
@run_argument
@store_option
@tenant_option
@click.option("--output", "-o", type=GivenPath(dir_okay=False), help="A file instead of the terminal.")
def export_(run_id: str, store: str | None, tenant: str, output: Path | None) -> None:
    """Write a run as JSON lines, to be kept or imported elsewhere: its events, its plan, its large values.

    An open run continues where it is imported (`podium import FILE`, then `podium resume RUN`). Files of steps and what
    they printed are not part of it: copy runs/RUN/artifacts and runs/RUN/logs/steps to keep them. Files in the bucket
    of the configuration file (`artifacts`) are found where the run is imported.
    """

    async def work(parts: Parts, run_id: RunId) -> None:
        lines = [line async for line in export_with_files(parts, tenant, run_id)]
        if output is None and sys.stdout.isatty():
            for line in lines:
                click.echo(spelled_json(line.decode().rstrip("\n")))
        elif output is None:
            sys.stdout.buffer.writelines(lines)
        else:
            output.write_bytes(b"".join(lines))

    using_run(store, tenant, run_id, work)


@click.command("import")
@click.argument("file", type=GivenPath())
@store_option
def import_(file: Path, store: str | None) -> None:
    """Put an exported run into a store ('-' reads standard input). Importing it again changes nothing."""
    try:
        content = _read_export(file)
    except OSError as error:
        raise click.UsageError(f"cannot read '{file}': {error.strerror}.") from error

    created = using_parts(store, lambda parts: put_run(parts, content.split(b"\n")), create=True)
    run_id, count = created.run.identity.run_id, created.run.head
    was_there = "was there already" if created.duplicate else "imported"
    click.echo(f"{run_id}: {was_there}, {count} events")


def _read_export(file: Path) -> bytes:
    if str(file) != "-":
        return read_regular(file, max_bytes=_MAX_BYTES, what="an exported run")
    # Standard input may be endless. An export is recognized by its first line.
    head = sys.stdin.buffer.readline(_MAX_HEADER)
    check_header(head)
    return head + sys.stdin.buffer.read(_MAX_BYTES)


@click.command()
@store_option
@tenant_option
@click.option("--older-than", metavar="AGE", help="Such as 90d, 12h, 30m.")
@click.option(
    "--policy",
    type=GivenPath(),
    metavar="FILE",
    help="A YAML file with an age for each status, like `completed: 30d`; other statuses are kept.",
)
@click.option(
    "--expired",
    is_flag=True,
    help="Remove files of ended runs that `retention` of the configuration file let expire.",
)
@click.option("--status", "statuses", multiple=True, type=click.Choice(sorted(TERMINAL)), help="Only these.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option(
    "--leave-executions",
    is_flag=True,
    help="Do not ask Conductor servers to remove the executions of the runs, for example because a server is gone.",
)
@json_option
def prune(
    store: str | None,
    tenant: str,
    older_than: str | None,
    policy: Path | None,
    expired: bool,
    statuses: tuple[str, ...],
    dry_run: bool,
    leave_executions: bool,
    as_json: bool,
) -> None:
    """Remove ended runs for good, with their directories, their artifacts in the bucket of the configuration file, and
    their executions on Conductor. The age of a run counts from its creation. With --expired, also or only remove files
    whose time is over; their runs are kept.

    Never removed: open runs, and runs with undelivered events. A run is kept if its Conductor server does not answer. A
    request that was made once is still known afterwards, so that repeating it does not run it again.

    \b
    podium prune --older-than 90d --status FAILED
    podium prune --policy retention.yaml --dry-run
    podium prune --expired
    """
    ages = None if expired and older_than is None and policy is None else _ages(older_than, statuses, policy)
    if ages is None and statuses:
        raise click.UsageError("--status is for --older-than: files expire whatever the status of their run.")

    async def work(parts: Parts) -> tuple[list[Pruned], list[Expired]]:
        pruned: list[Pruned] = []
        if ages is not None:
            runs = prune_by_policy(parts, tenant, ages, dry_run=dry_run, leave_executions=leave_executions)
            pruned = [one async for one in runs]
        if not expired:
            return pruned, []
        # A dry run leaves the runs, whose files would be removed with them.
        gone = {one.run.identity.run_id for one in pruned if one.kept_because is None}
        files = prune_expired(parts, tenant, dry_run=dry_run)
        return pruned, [one async for one in files if one.run.identity.run_id not in gone]

    pruned, files = using_parts(store, work)
    left = [(one.run, one.left_behind) for one in pruned] + [(one.run, one.left_behind) for one in files]
    for run, left_behind in left:
        if left_behind is not None:
            say(f"warning: {run.identity.run_id}: {left_behind}", err=True)
    if as_json:
        print_json(
            [
                {
                    "run": one.run.identity.run_id,
                    "status": one.run.status,
                    "kept_because": one.kept_because,
                    **({"left_behind": one.left_behind} if one.left_behind is not None else {}),
                }
                for one in pruned
            ]
            + [
                {
                    "run": one.run.identity.run_id,
                    "status": one.run.status,
                    "expired_files": one.names,
                    **({"left_behind": one.left_behind} if one.left_behind is not None else {}),
                }
                for one in files
            ]
        )
        return
    done = "would be removed" if dry_run else "removed"
    for one in pruned:
        click.echo(f"{one.run.identity.run_id}: {one.kept_because or done}")
    for found in files:
        for name in found.names:
            click.echo(f"{found.run.identity.run_id}: {visible(name)} has expired, {done}")
    if ages is not None:
        click.echo(f"{sum(one.kept_because is None for one in pruned)} runs")
    if expired:
        click.echo(f"{sum(len(one.names) for one in files)} files")


def _ages(older_than: str | None, statuses: tuple[str, ...], policy: Path | None) -> RetentionPolicy:
    if (older_than is None) == (policy is None):
        raise click.UsageError("give either --older-than AGE or --policy FILE, or --expired.")
    if policy is not None:
        if statuses:
            raise click.UsageError("--status is for --older-than: a policy names its statuses itself.")
        return read_policy(_read_policy_file(policy), str(policy))
    assert older_than is not None
    age = parse_age(older_than)
    if age is None:
        raise click.UsageError(f"'{older_than}' is not an age: write a number and m, h or d, like 90d.")
    return dict.fromkeys((RunStatus(status) for status in statuses or sorted(TERMINAL)), age)


def _read_policy_file(policy: Path) -> bytes:
    try:
        return read_regular(policy, max_bytes=MAX_POLICY_BYTES, what="ages of statuses in YAML")
    except OSError as error:
        raise click.UsageError(f"cannot read '{policy}': {error.strerror}.") from error
