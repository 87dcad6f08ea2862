"""`podium runs`: lists runs and shows the state of each."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from podium.cli.hints import carried, lines_of, say
from podium.cli.output import print_json, print_table
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.log.runs import Run, RunQuery
from podium.log.transitions import RunStatus
from podium.log.usage import describe_usage, usage_cells
from podium.operations.driving import RunDriver
from podium.operations.explaining import Reason
from podium.operations.listing import list_runs
from podium.operations.parts import Parts
from podium.operations.run_filters import parse_filter
from podium.operations.runs import RunView, show_run
from podium.operations.waiting import Obstacles, obstacles_of
from podium.operations.why import reason_json
from podium.text import visible
from podium.wiring.stores import system_clock


@click.group()
def runs() -> None:
    """Look at runs.

    \b
    podium runs list --status RUNNING
    podium runs show RUN
    """


@runs.command("list")
@store_option
@tenant_option
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
    found, following = using_parts(store, lambda parts: list_runs(parts, tenant, wanted))
    if as_json:
        print_json({"runs": [_listed_json(one) for one in found], "cursor": following})
        return
    print_table(("run", "status", "plan", "events", "created"), [_row(one) for one in found])
    for one in found:
        for text in one.remarks():
            say(f"{one.run.identity.run_id}: {visible(text)}")
    if following is not None:
        click.echo(f"more: --cursor {following}")


def _row(found: Obstacles) -> tuple[str, ...]:
    run = found.run
    status = f"{run.status} ({found.substatus})" if found.substatus else run.status
    return run.identity.run_id, status, run.identity.plan_id, str(run.head), run.created_at


def _listed_json(found: Obstacles) -> dict[str, Any]:
    substatus = found.substatus
    return _as_json(found.run, found.driver) | ({"substatus": substatus} if substatus else {})


@runs.command()
@click.argument("run_id", metavar="RUN")
@store_option
@tenant_option
@click.option("--after-step", default="", help="Show the steps that follow this one.")
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1, 10000), help="Most steps to show."
)
@json_option
def show(run_id: str, store: str | None, tenant: str, after_step: str, limit: int, as_json: bool) -> None:
    """Show the state of a run and its steps."""

    async def work(parts: Parts) -> tuple[RunView, Obstacles]:
        view = await show_run(parts.store, parts.clock, tenant, run_id, after_step=after_step, limit=limit)
        found = await obstacles_of(parts, view.run)
        substatus = found.substatus or view.summary.substatus
        return view._replace(summary=msgspec.structs.replace(view.summary, substatus=substatus)), found

    view, (_, driver, waits) = using_parts(store, work)
    if as_json:
        print_json(
            {
                **_as_json(view.run, driver),
                "summary": view.summary.as_json(),
                **({"signedBy": msgspec.to_builtins(view.signed_by)} if view.signed_by else {}),
                **({"waitsFor": [reason_json(reason, carried) for reason in waits]} if waits else {}),
                "steps": [msgspec.to_builtins(step) for step in view.steps],
            }
        )
        return
    _show_text(view, driver, waits)


def _show_text(view: RunView, driver: RunDriver | None, waits: Sequence[Reason]) -> None:
    summary, run = view.summary, view.run.identity
    substatus = f" ({summary.substatus})" if summary.substatus else ""
    click.echo(f"{run.run_id}  {summary.status}{substatus}  {run.plan_id} {run.plan_version}")
    for name, moment in (
        ("queued", summary.queued_at),
        ("started", summary.started_at),
        ("ended", summary.completed_at),
    ):
        if moment:
            click.echo(f"{name:8} {moment}")
    if view.run.labels:
        shown = ", ".join(f"{name}={value}" for name, value in view.run.labels.items())
        click.echo(f"labels   {visible(shown)}")
    for by in view.signed_by:
        click.echo(f"signed   by {by.key_id} at {by.signed_at} ({by.public})")
    if driver is not None:
        say(f"driver   {_describe_driver(driver)}")
    if view.approval is not None:
        click.echo(f"approved {visible(view.approval)}")
    for reason in waits:
        text, *commands = lines_of(reason)
        click.echo("\n".join([f"waits    {text.strip()}", *commands]))
    if summary.failure is not None:
        click.echo(f"failed   {summary.failure.code}: {visible(summary.failure.message)}")
    if summary.inconsistent:
        click.echo("warning  the log contains an event that is not possible there: see `podium events`")
    counted = (
        ("succeeded", summary.succeeded_steps),
        ("failed", summary.failed_steps),
        ("running", summary.running_steps),
        ("skipped", summary.skipped_steps),
        ("stopped", summary.stopped_steps),
        ("pending", summary.pending_steps),
    )
    counts = ", ".join(f"{count} {name}" for name, count in counted if count)
    click.echo(f"steps    {summary.step_count}" + (f": {counts}" if counts else ""))
    for alert in summary.alerts:
        click.echo(f"alert    {alert.code}: {visible(alert.message)}")
    if any(summary.usage.values()):
        click.echo(f"used     {describe_usage(summary.usage)}")
    if view.steps:
        in_doubt = {reason.subject for reason in waits if reason.kind == "doubt"}
        with_usage = any(step.usage for step in view.steps)
        rows = [
            (
                step.step_id,
                "IN_DOUBT" if step.step_id in in_doubt else step.status,
                str(step.attempt_count),
                *(usage_cells(step.usage) if with_usage else ()),
                step.newest.completed_at or step.newest.started_at or "",
                step.newest.error.message if step.newest.error is not None else "",
            )
            for step in view.steps
        ]
        used = ("tokens", "dollars") if with_usage else ()
        print_table(("step", "status", "attempts", *used, "at", "error"), rows)


def _describe_driver(driver: RunDriver) -> str:
    if driver.in_line:
        return f"{driver.title}: {driver.in_line}"
    return driver.title if driver.is_alive else driver.text()


def _as_json(run: Run, driver: RunDriver | None) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(run)
    built["metadata"] = msgspec.json.decode(run.metadata)
    if driver is not None:
        built["driver"] = {"owner": driver.owner, "isAlive": driver.is_alive, "until": driver.until}
        if driver.in_line:
            built["driver"]["waitsFor"] = driver.in_line
    return {**built.pop("identity"), **built}
