"""Inspecting a run: why it waits, the output of its steps, how it ended."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import click
import msgspec

from podium.cli.completed_by import completed_by
from podium.cli.following import saying_when_undriven
from podium.cli.hints import carried, with_places
from podium.cli.output import json_text, print_json
from podium.cli.servers import asking_run, place_options
from podium.cli.storing import json_option, run_argument, store_option, tenant_option, using_run
from podium.cli.writing import write_file
from podium.log.ids import RunId
from podium.operations.logs import LogPart, read_logs
from podium.operations.parts import Parts
from podium.operations.printed import why_lines
from podium.operations.reports import RunReport, as_json, as_markdown, report_run
from podium.operations.why import Why, why_json, why_of, why_run
from podium.text import visible

if TYPE_CHECKING:
    from podium.client import Client
    from podium.client.printed_calls import ReportFormat

_FORMATS: Final[dict[str, Callable[[RunReport], str]]] = {
    "md": lambda found: as_markdown(found, carried),
    "json": lambda found: json_text(as_json(found)),
}


@click.command()
@run_argument
@place_options
@json_option
def why(run_id: str, store: str | None, tenant: str, as_json: bool) -> int:
    """Say what a run waits for, until when, and what one can do about it."""

    def remotely(client: "Client", run_id: RunId) -> Why:
        from podium.client import printed_calls

        printed = client.ask(printed_calls.why(run_id))
        return why_of(printed)

    async def work(parts: Parts, run_id: RunId) -> Why:
        return await why_run(parts, tenant, run_id)

    found = asking_run(store, tenant, run_id, work, remotely)
    if as_json:
        print_json(why_json(found, carried))
        return 0
    click.echo("\n".join(why_lines(found, carried, with_places)))
    return 0


@click.command()
@run_argument
@click.argument("step", required=False, shell_complete=completed_by("complete_step"))
@click.option("--follow", "-f", is_flag=True, help="Follow the run until it has ended.")
@click.option("--raw", is_flag=True, help="Of agents, too, all that their programs wrote.")
@place_options
def logs(
    run_id: str,
    step: str | None,
    follow: bool,
    raw: bool,
    store: str | None,
    tenant: str,
) -> int:
    """Print what the steps of a run wrote, all of them or one STEP; of agents, what they did and answered."""

    async def work(parts: Parts, run_id: RunId) -> None:
        run = await parts.store.runs.find(tenant, run_id)
        async with AsyncExitStack() as around:
            if follow:
                await around.enter_async_context(saying_when_undriven(parts.store, run))
            async for part in read_logs(parts, tenant, run_id, step, raw=raw, follow=follow):
                await _print_part(part)

    def remotely(client: "Client", run_id: RunId) -> None:
        from podium.cli.remote_logs import remote_logs

        async def show() -> None:
            async for part in remote_logs(client, run_id, step, raw=raw, follow=follow):
                await _print_part(part)

        asyncio.run(show())

    asking_run(store, tenant, run_id, work, remotely)
    return 0


async def _print_part(part: LogPart) -> None:
    click.echo(f"== {visible(part.step)} attempt {part.attempt}{part.kind}")
    is_open = False
    async for piece in part.pieces():
        lines = piece.splitlines(keepends=True)
        if not lines:
            continue
        is_open = lines[-1].rstrip("\r\n") == lines[-1]
        click.echo("\n".join(visible(line.rstrip("\r\n")) for line in lines), nl=not is_open)
    if is_open:
        click.echo()


@click.command()
@run_argument
@click.option(
    "--format", "format_", type=click.Choice(["md", "html", "json"]), default="md", show_default=True
)
@click.option("-o", "--output", metavar="FILE", help="Where to write it. [default: standard output]")
@place_options
def report(run_id: str, format_: "ReportFormat", output: str | None, store: str | None, tenant: str) -> int:
    """Summarize a run: its status, its steps in the order in which they started, what failed and why.

    As HTML it is one file that needs nothing else: the graph, a timeline, what steps printed, the changes of agents.

    \b
    Examples:
      podium report last
      podium report last --format html -o report.html
    """

    async def work(parts: Parts, run_id: RunId) -> str:
        if format_ == "html":
            from podium.operations.html_report import html_of, whole_report

            return html_of(await whole_report(parts, tenant, run_id), carried)
        return _FORMATS[format_](await report_run(parts, tenant, run_id))

    def remotely(client: "Client", run_id: RunId) -> str:
        from podium.client import printed_calls

        found = client.ask(printed_calls.report_as(run_id, format_))
        return json_text(msgspec.json.decode(found)) if format_ == "json" else found.decode()

    text = asking_run(store, tenant, run_id, work, remotely)
    if output is None or output == "-":
        click.echo(text)
    else:
        write_file(output, text.encode())
    return 0


@click.command()
@run_argument
@click.option("--items", is_flag=True, help="Also every item of loops; without it, those that failed.")
@store_option
@tenant_option
def timeline(run_id: str, items: bool, store: str | None, tenant: str) -> int:
    """Show when the steps of a run ran: each as a bar, in the order in which they started.

    \b
    Examples:
      podium timeline last
      podium timeline nightly-3f2a --items
    """
    from podium.cli.summary import print_rows
    from podium.operations.report_rows import without_items

    async def work(parts: Parts, run_id: RunId) -> RunReport:
        return await report_run(parts, tenant, run_id)

    found = using_run(store, tenant, run_id, work)
    rows = found.rows if items else without_items(found.rows)
    print_rows(rows, most=len(rows))
    return 0
