"""Looking into a run: why it waits, what its steps printed, how it went."""

from contextlib import AsyncExitStack
from typing import Final

import click

from podium.cli.following import saying_when_undriven
from podium.cli.hints import carried, print_causes, print_reason, say
from podium.cli.output import print_json
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.log.transitions import TERMINAL
from podium.operations.explaining import Explanation, explain
from podium.operations.logs import LogPart, read_logs
from podium.operations.parts import Parts
from podium.operations.reports import RunReport, as_html, as_json, as_markdown, report_run
from podium.operations.why import why_json
from podium.text import visible

# Of a graph in which many steps failed, the first ones are enough.
_FORMATS: Final = {"md": as_markdown, "html": as_html}


@click.command()
@click.argument("run_id", metavar="RUN")
@store_option
@tenant_option
@json_option
def why(run_id: str, store: str | None, tenant: str, as_json: bool) -> int:
    """Say what a run waits for, until when, and what one can do about it."""

    async def work(parts: Parts) -> tuple[Explanation, RunReport]:
        report = await report_run(parts, tenant, run_id, steps=1)
        return await explain(parts, tenant, run_id), report

    explained, report = using_parts(store, work)
    if as_json:
        print_json(why_json(explained, report, carried))
        return 0
    if explained.run.status in TERMINAL:
        click.echo(f"run {visible(run_id)} waits for nothing: it has ended ({explained.status.lower()}).")
    else:
        substatus = f" ({explained.substatus})" if explained.substatus is not None else ""
        click.echo(f"run {visible(run_id)} is {explained.status.lower()}{substatus}:")
    if explained.undriven is not None:
        say(f"  {explained.undriven.text()}")
    for reason in explained.reasons:
        print_reason(reason)
    print_causes(explained.if_resumed, run_id)
    for text in report.notes():
        click.echo(f"  {visible(text)}")
    return 0


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("step", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@click.option("--raw", is_flag=True, help="Of agents, too, all that their programs wrote.")
@store_option
@tenant_option
def logs(
    run_id: str,
    step: str | None,
    follow: bool,
    raw: bool,
    store: str | None,
    tenant: str,
) -> int:
    """Print what the steps of a run wrote, all of them or one STEP; of agents, what they did and answered."""

    async def work(parts: Parts) -> None:
        run = await parts.store.runs.find(tenant, run_id)
        async with AsyncExitStack() as around:
            if follow:
                await around.enter_async_context(saying_when_undriven(parts.store, run))
            async for part in read_logs(parts, tenant, run_id, step, raw=raw, follow=follow):
                _print_part(part)

    using_parts(store, work)
    return 0


def _print_part(part: LogPart) -> None:
    click.echo(f"== {visible(part.step)} attempt {part.attempt}{part.kind}")
    is_open = False
    for piece in part.pieces():
        lines = piece.splitlines(keepends=True)
        if not lines:
            continue
        is_open = lines[-1].rstrip("\r\n") == lines[-1]
        click.echo("\n".join(visible(line.rstrip("\r\n")) for line in lines), nl=not is_open)
    if is_open:
        click.echo()


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--format", "format_", type=click.Choice(["md", "html", "json"]), default="md", show_default=True
)
@store_option
@tenant_option
def report(run_id: str, format_: str, store: str | None, tenant: str) -> int:
    """Summarize a run: its status, its steps, what failed and why."""

    async def work(parts: Parts) -> RunReport:
        return await report_run(parts, tenant, run_id)

    found = using_parts(store, work)
    if format_ == "json":
        print_json(as_json(found))
    else:
        click.echo(_FORMATS[format_](found))
    return 0
