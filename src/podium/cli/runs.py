"""`podium runs`: lists runs and shows the state of each."""

from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

import click

from podium.cli.hints import carried, with_places
from podium.cli.output import print_json, print_table
from podium.cli.servers import asking, asking_run, place_options
from podium.cli.storing import json_option, run_argument
from podium.cli.truncate import cut_middle
from podium.log.ids import RunId
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.operations.listing import RunList, list_runs
from podium.operations.parts import Parts
from podium.operations.printed import (
    RUN_COLUMNS,
    more_line,
    remark_lines,
    run_lines,
    run_row,
    step_table,
)
from podium.operations.run_filters import parse_filter
from podium.operations.run_json import ShownRun, full_view, listed_json, shown_json
from podium.operations.waiting import Obstacles
from podium.text import visible
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from podium.client import Client

# Width of the lines between and around four columns of a table at a terminal.
_TABLE_LINES: Final = 13
_MIN_PLAN: Final = 8


@click.group()
def runs() -> None:
    """Look at runs.

    \b
    podium runs list --status RUNNING
    podium runs show RUN
    """


@runs.command("list")
@place_options
@click.option(
    "--filter",
    "given",
    default="",
    metavar="TERMS",
    help="Only runs that match all of these terms, such as 'status=FAILED label.team=web created>=7d'.",
)
@click.option("--status", "statuses", multiple=True, type=click.Choice(list(RunStatus)), help="Only these.")
@click.option(
    "--needs",
    type=click.Choice(["approval", "person"]),
    help="Only runs that wait for a person; `approval`: for an approval, of their plan or of a step.",
)
@click.option("--plan", help="Only runs of this plan.")
@click.option("--project", help="Only runs of this project.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@click.option("--cursor", help="Where the page before ended; it was printed there.")
@json_option
def list_(
    store: str | None,
    tenant: str,
    given: str,
    statuses: tuple[RunStatus, ...],
    needs: str | None,
    plan: str | None,
    project: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first.

    A filter has terms, separated by spaces: status=RUNNING,PAUSED  plan=ID  project=ID  environment=ID  pool=NAME
    label.NAME=VALUE  text~PART (of the id of a run, its plan or its request)  created>=TIME  created<TIME (a date, a
    moment, or an age like 7d)  needs=person  needs=approval. A value with spaces is written in quotes.

    \b
    Examples:
      podium runs list --filter 'status=FAILED created>=24h'
      podium runs list --filter 'label.team=web text~nightly'
    """
    query = RunQuery(
        statuses=frozenset(RunStatus(status) for status in statuses),
        plan_id=plan,
        project_id=project,
        limit=limit,
        cursor=cursor,
    )
    wanted = parse_filter(given, system_clock().now(), query)
    if needs is not None:
        wanted = wanted._replace(needs=needs)

    def remotely(client: "Client") -> RunList:
        from podium.cli.remote_runs import remote_list

        return remote_list(client, f"{given} needs={needs}" if needs else given, query)

    found, following = asking(store, lambda parts: list_runs(parts, tenant, wanted), remotely)
    if as_json:
        print_json({"runs": [listed_json(one, carried) for one in found], "cursor": following})
        return
    print_table(RUN_COLUMNS, _rows(found))
    for line in remark_lines(found, with_places):
        click.echo(line)
    if following is not None:
        click.echo(more_line(following))


def _rows(found: Sequence[Obstacles]) -> list[tuple[str, ...]]:
    """Ids are never truncated, because they are copied from here. The rest of the line is for the names of
    plans.
    """
    rows = list(map(run_row, found))
    taken = sum(max((len(row[at]) for row in rows), default=0) for at in range(3))
    room = max(get_terminal_size().columns - taken - _TABLE_LINES, _MIN_PLAN)
    return [(*row, cut_middle(visible(plan), room)) for *row, plan in rows]


@runs.command()
@run_argument
@place_options
@click.option("--after-step", default="", help="Show the steps that follow this one.")
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1, 10000), help="Most steps to show."
)
@json_option
def show(run_id: str, store: str | None, tenant: str, after_step: str, limit: int, as_json: bool) -> None:
    """Show the state of a run and its steps."""

    async def work(parts: Parts, run_id: RunId) -> ShownRun:
        return await full_view(parts, tenant, run_id, after_step=after_step, limit=limit)

    def remotely(client: "Client", run_id: RunId) -> ShownRun:
        from podium.cli.remote_runs import remote_view

        return remote_view(client, run_id, after_step=after_step, limit=limit)

    shown = asking_run(store, tenant, run_id, work, remotely)
    if as_json:
        print_json(shown_json(shown, carried))
        return
    click.echo("\n".join(run_lines(shown, carried, with_places)))
    if (table := step_table(shown)) is not None:
        print_table(*table)
