"""`podium schedule`: run workflows at given times."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import click
import msgspec

from podium.cli.app import INVALID_FILE
from podium.cli.completed_by import completed_by
from podium.cli.foreground import compiled_workflow
from podium.cli.hints import say
from podium.cli.output import print_json, print_table
from podium.cli.reading import read_file
from podium.cli.schedule_options import Definition as Given
from podium.cli.schedule_options import Moment, definition_options, times_of
from podium.cli.servers import asking, given_server, place_options
from podium.cli.storing import json_option, using_parts
from podium.log.times import Timestamp, timestamp
from podium.operations.inputs import parse_inputs
from podium.operations.parts import Parts
from podium.operations.printed_lists import next_lines, schedule_lines, schedules_table, ticks_table
from podium.operations.schedules import changing, defining, reading
from podium.operations.schedules.changing import BackfillRequest
from podium.operations.schedules.defining import ScheduleRequest
from podium.operations.schedules.plans import KeptPlan, published_plan
from podium.operations.schedules.views import (
    ScheduleView,
    TickView,
    describe_times,
    tick_view,
    view_of,
)
from podium.plan.loading import plan_bytes
from podium.runtime.plan_file import PLAN, WORKFLOW
from podium.schedules.schedule import Definition, Overlap, Schedule, Times
from podium.text import visible
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from podium.client import Client

# Together with the result of its last time.
Listed: TypeAlias = tuple[ScheduleView, TickView | None]


@click.group()
def schedule() -> None:
    """Run workflows at given times. Workers start the runs: `podium worker`.

    \b
    podium schedule add nightly release.yaml --cron '30 2 * * *' --timezone Europe/Berlin
    podium schedule show nightly
    podium schedule backfill nightly --from 2026-01-01 --to 2026-02-01 --preview
    """


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.argument("file", metavar="FILE", required=False, shell_complete=completed_by("complete_file"))
@click.option(
    "--plan",
    "plan_ref",
    metavar="ID@VERSION",
    help="Instead of FILE: a plan that was published on the server.",
)
@definition_options
@click.option("--paused", metavar="REASON", help="Add it paused.")
@click.option("--replace", "replaces", is_flag=True, help="Replace the schedule that has this id.")
@click.option("--preview", is_flag=True, help="Check everything and show the next times; store nothing.")
@place_options
@json_option
def add(
    schedule_id: str,
    file: str | None,
    plan_ref: str | None,
    paused: str | None,
    replaces: bool,
    preview: bool,
    store: str | None,
    tenant: str,
    as_json: bool,
    **given: Unpack[Given],
) -> int:
    """Run the workflow FILE ('-' is standard input) at given times.

    The plan is kept with the schedule: later changes of the file change nothing until --replace.

    \b
    podium schedule add nightly release.yaml --cron '30 2 * * *' --timezone Europe/Berlin
    podium schedule add poll check.yaml --every 15m --overlap buffer_one --jitter 1m
    podium schedule add launch launch.yaml --at 2026-12-01T09:00:00Z --input 'at=${schedule.time}'
    """
    if (file is None) == (plan_ref is None):
        raise click.UsageError("give a workflow FILE, or a published plan with --plan ID@VERSION.")
    now = timestamp(system_clock().now())
    times = times_of(given, now)
    server = given_server()
    if server is not None and preview and file is None:
        raise click.UsageError("--preview with --server needs the workflow FILE.")
    compiled = _compiled(file, given["workspace"]) if file is not None else None
    if file is not None and compiled is None:
        return INVALID_FILE

    def request_of(kept: KeptPlan) -> ScheduleRequest:
        definition = _definition(given, times, kept)
        return ScheduleRequest(tenant, schedule_id, definition, kept.plan, kept.contents, paused)

    async def plan_of(parts: Parts) -> KeptPlan:
        return compiled or await published_plan(parts, tenant, plan_ref or "")

    async def work(parts: Parts) -> Schedule:
        store_it = defining.replace_schedule if replaces else defining.add_schedule
        return await store_it(parts, request_of(await plan_of(parts)))

    if preview:
        kept = compiled or using_parts(store, plan_of)
        definition = request_of(kept).definition
        defining.check_request(request_of(kept), now)
        _print_preview(definition, defining.preview(definition, now, 10), as_json=as_json)
        return 0
    if server is not None:
        from podium.cli.remote_schedules import add_remotely

        added = add_remotely(
            server, schedule_id, compiled or plan_ref or "", given, paused, replaces=replaces
        )
    else:
        added = view_of(using_parts(store, work, create=not replaces))
    if as_json:
        print_json(msgspec.to_builtins(added))
        return 0
    say(f"schedule {schedule_id} {'replaced' if replaces else 'added'}: {visible(added.describes)}")
    _print_lines(next_lines(added))
    say(f"A worker of pool {visible(added.pool)} starts its runs: `{_worker_command(added.pool)}`")
    return 0


def _worker_command(pool: str) -> str:
    return f"podium worker --pool {pool}"


def _compiled(file: str, workspace: Path | None) -> KeptPlan | None:
    """Prints the problems of the workflow."""
    name, content = read_file(file)
    plan = compiled_workflow(content, name, workspace)
    return KeptPlan(plan, {PLAN: plan_bytes(plan), WORKFLOW: content}) if plan is not None else None


def _definition(given: Given, times: Times, kept: KeptPlan) -> Definition:
    return Definition(
        times=times,
        plan_id=kept.plan.metadata.plan_id,
        plan_version=kept.plan.metadata.plan_version,
        plan_sha256=kept.sha256,
        inputs=parse_inputs(given["inputs"], kept.plan.workflow.inputs),
        pool=given["pool"],
        workspace=str((given["workspace"] or Path.cwd()).absolute()),
        overlap=Overlap(given["overlap"]),
        jitter=given["jitter"],
        catch_up=given["catch_up"],
        start=given["start"],
        end=given["end"],
    )


def _print_preview(definition: Definition, times: list[Timestamp], *, as_json: bool) -> None:
    if as_json:
        print_json({"describes": describe_times(definition.times), "nextTimes": times})
        return
    click.echo(describe_times(definition.times))
    for time in times:
        click.echo(f"  {time}")
    click.echo("Preview: nothing was stored.")


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)


@schedule.command("list")
@click.option("--after", default="", metavar="ID", help="Continue behind this schedule.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000))
@place_options
@json_option
def list_(after: str, limit: int, store: str | None, tenant: str, as_json: bool) -> None:
    """List schedules with their next time and what became of the last one."""

    async def work(parts: Parts) -> list[Listed]:
        found = await reading.list_schedules(parts, tenant, after=after, limit=limit)
        return [(view_of(one, 1), await reading.last_tick(parts, one)) for one in found]

    def remotely(client: "Client") -> list[Listed]:
        from podium.cli.remote_schedules import remote_list

        return remote_list(client, after, limit)

    found = asking(store, work, remotely)
    if as_json:
        print_json([_listed_json(one, last) for one, last in found])
        return
    print_table(*schedules_table(found))


def _listed_json(view: ScheduleView, last: TickView | None) -> dict[str, Any]:
    listed: dict[str, Any] = msgspec.to_builtins(view)
    return listed | {"lastTick": msgspec.to_builtins(last) if last is not None else None}


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--times", default=5, show_default=True, type=click.IntRange(0, 1000), help="How many to come.")
@click.option(
    "--ticks", default=10, show_default=True, type=click.IntRange(0, 1000), help="How many that passed."
)
@place_options
@json_option
def show(schedule_id: str, times: int, ticks: int, store: str | None, tenant: str, as_json: bool) -> None:
    """Show a schedule: its next times, and what became of the last ones."""

    async def work(parts: Parts) -> tuple[ScheduleView, list[TickView]]:
        found = await reading.show_schedule(parts, tenant, schedule_id)
        passed = await reading.list_ticks(parts, tenant, schedule_id, limit=ticks) if ticks else []
        return view_of(found, times), [tick_view(one) for one in passed]

    def remotely(client: "Client") -> tuple[ScheduleView, list[TickView]]:
        from podium.cli.remote_schedules import remote_view

        return remote_view(client, schedule_id, times, ticks)

    view, passed = asking(store, work, remotely)
    if as_json:
        print_json(msgspec.to_builtins(view) | {"ticks": [msgspec.to_builtins(one) for one in passed]})
        return
    _print_lines(schedule_lines(view))
    if passed:
        click.echo("last:")
        print_table(*ticks_table(passed))


def _changed(
    client: "Client",
    schedule_id: str,
    verb: Literal["pause", "resume", "trigger", "backfill"],
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    from podium.client import printed_calls

    return client.ask(printed_calls.change_schedule(schedule_id, verb, body))


def _stop_backfill(store: str | None, tenant: str, schedule_id: str) -> None:
    async def work(parts: Parts) -> None:
        await changing.stop_backfill(parts, tenant, schedule_id)

    def remotely(client: "Client") -> None:
        _changed(client, schedule_id, "backfill", {"stop": True})

    asking(store, work, remotely)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--reason", required=True, metavar="TEXT", help="Why; shown with the schedule.")
@place_options
def pause(schedule_id: str, reason: str, store: str | None, tenant: str) -> None:
    """Start no more runs of a schedule until it is resumed. Open runs continue."""

    async def work(parts: Parts) -> None:
        await changing.pause_schedule(parts, tenant, schedule_id, reason)

    asking(store, work, lambda client: _changed(client, schedule_id, "pause", {"reason": reason}))
    say(f"schedule {schedule_id} paused; continue with `podium schedule resume {schedule_id}`")


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@place_options
def resume(schedule_id: str, store: str | None, tenant: str) -> None:
    """Let a paused schedule continue with its next time. Times that have passed are not made up for: see `backfill`."""

    async def work(parts: Parts) -> ScheduleView:
        return view_of(await changing.resume_schedule(parts, tenant, schedule_id), 1)

    def remotely(client: "Client") -> ScheduleView:
        return msgspec.convert(_changed(client, schedule_id, "resume"), ScheduleView)

    following = [*asking(store, work, remotely).next_times, "none"][0]
    say(f"schedule {schedule_id} resumed; next time: {following}")


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@place_options
@json_option
def trigger(schedule_id: str, store: str | None, tenant: str, as_json: bool) -> None:
    """Start a run of a schedule now, also if it is paused or another run is open."""

    async def work(parts: Parts) -> str:
        return await changing.trigger_schedule(parts, tenant, schedule_id)

    run_id = asking(store, work, lambda client: str(_changed(client, schedule_id, "trigger")["runId"]))
    if as_json:
        print_json({"run": run_id})
    else:
        say(f"run {run_id} is queued; `podium runs show {run_id}` shows it")


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--from", "first", type=Moment(), metavar="TIME", help="The first time.")
@click.option("--to", "until", type=Moment(), metavar="TIME", help="Times before this one.")
@click.option(
    "--concurrency",
    default=1,
    show_default=True,
    type=click.IntRange(1, changing.MAX_BACKFILL_RUNS),
    help="How many of its runs at the same time.",
)
@click.option("--preview", is_flag=True, help="Show the times; start nothing.")
@click.option("--stop", is_flag=True, help="Start no more runs of the backfill that is under way.")
@place_options
@json_option
def backfill(
    schedule_id: str,
    first: Timestamp | None,
    until: Timestamp | None,
    concurrency: int,
    preview: bool,
    stop: bool,
    store: str | None,
    tenant: str,
    as_json: bool,
) -> None:
    """Start runs for times of the past, at most 10,000 of them. A time that has a run does not get a second one."""
    if stop != (first is None and until is None) or (first is None) != (until is None) or (stop and preview):
        raise click.UsageError("give --from TIME and --to TIME, or --stop.")
    if stop:
        _stop_backfill(store, tenant, schedule_id)
        say(f"the backfill of schedule {schedule_id} starts no more runs")
        return
    assert first is not None
    assert until is not None
    request = BackfillRequest(first, until, concurrency)

    async def work(parts: Parts) -> list[Timestamp]:
        times = await changing.preview_backfill(parts, tenant, schedule_id, request)
        if not preview:
            await changing.backfill_schedule(parts, tenant, schedule_id, request)
        return times

    asked = {"from": first, "to": until, "concurrency": concurrency, "preview": preview}
    times = asking(
        store, work, lambda client: list(_changed(client, schedule_id, "backfill", asked)["times"])
    )
    if as_json:
        print_json({"times": times, "started": not preview})
        return
    for time in times if preview else ():
        click.echo(time)
    if preview:
        say(f"{len(times)} times; nothing was started")
        return
    say(f"{len(times)} times are made up for, {concurrency} at the same time")
    say(f"`podium schedule show {schedule_id}` shows how far it is")


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@place_options
def rm(schedule_id: str, store: str | None, tenant: str) -> None:
    """Remove a schedule and the record of its times. Its runs stay."""

    async def work(parts: Parts) -> None:
        await changing.remove_schedule(parts, tenant, schedule_id)

    asking(store, work, lambda client: client.remove_schedule(schedule_id))
    say(f"schedule {schedule_id} removed")
