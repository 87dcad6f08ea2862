"""`podium schedule`: run workflows at given times."""

from pathlib import Path
from typing import Any, Unpack

import click
import msgspec

from podium.cli.app import INVALID_FILE
from podium.cli.foreground import compiled_workflow
from podium.cli.hints import say
from podium.cli.output import print_json, print_table
from podium.cli.reading import read_file
from podium.cli.schedule_options import Definition as Given
from podium.cli.schedule_options import Moment, definition_options, times_of
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.log.times import Timestamp, timestamp
from podium.operations.inputs import parse_inputs
from podium.operations.parts import Parts
from podium.operations.schedules import changing, defining, reading
from podium.operations.schedules.changing import BackfillRequest
from podium.operations.schedules.defining import ScheduleRequest
from podium.operations.schedules.plans import KeptPlan, published_plan
from podium.operations.schedules.views import (
    ScheduleView,
    describe_seconds,
    describe_times,
    tick_view,
    view_of,
)
from podium.plan.loading import plan_bytes
from podium.runtime.plan_file import PLAN, WORKFLOW
from podium.schedules.schedule import Definition, Overlap, Schedule, Tick, Times
from podium.text import visible
from podium.wiring.stores import system_clock


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
@click.argument("file", metavar="FILE", required=False)
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
@store_option
@tenant_option
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
    compiled = _compiled(file, given["workspace"]) if file is not None else None
    if file is not None and compiled is None:
        return INVALID_FILE

    async def request(parts: Parts) -> ScheduleRequest:
        plan = compiled or await published_plan(parts, tenant, plan_ref or "")
        definition = _definition(given, times, plan)
        return ScheduleRequest(tenant, schedule_id, definition, plan.plan, plan.contents, paused)

    async def look(parts: Parts) -> Definition:
        asked = await request(parts)
        defining.check_request(asked, now)
        return asked.definition

    async def work(parts: Parts) -> Schedule:
        store_it = defining.replace_schedule if replaces else defining.add_schedule
        return await store_it(parts, await request(parts))

    if preview:
        definition = using_parts(store, look, create=True)
        _print_preview(definition, defining.preview(definition, now, 10), as_json=as_json)
        return 0
    added = view_of(using_parts(store, work, create=not replaces))
    if as_json:
        print_json(msgspec.to_builtins(added))
        return 0
    say(f"schedule {schedule_id} {'replaced' if replaces else 'added'}: {visible(added.describes)}")
    _print_next(added)
    say(f"A worker of pool {visible(added.pool)} starts its runs: `{_worker_command(added.pool)}`")
    return 0


def _worker_command(pool: str) -> str:
    return f"podium worker --pool {pool}"


def _compiled(file: str, workspace: Path | None) -> KeptPlan | None:
    """Problems of the workflow are printed."""
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


def _print_next(view: ScheduleView) -> None:
    for time, start in zip(view.next_times, view.next_starts, strict=True):
        click.echo(f"  {time}" + (f", starts {start}" if start != time else ""))


@schedule.command("list")
@click.option("--after", default="", metavar="ID", help="Continue behind this schedule.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000))
@store_option
@tenant_option
@json_option
def list_(after: str, limit: int, store: str | None, tenant: str, as_json: bool) -> None:
    """List schedules with their next time and what became of the last one."""

    async def work(parts: Parts) -> list[tuple[Schedule, Tick | None]]:
        found = await reading.list_schedules(parts, tenant, after=after, limit=limit)
        return [(one, await _last_tick(parts, one)) for one in found]

    found = using_parts(store, work)
    if as_json:
        print_json([_listed_json(one, last) for one, last in found])
        return
    print_table(("schedule", "state", "plan", "next", "last", "times"), [_row(*one) for one in found])


async def _last_tick(parts: Parts, one: Schedule) -> Tick | None:
    ticks = await reading.list_ticks(parts, one.tenant_id, one.schedule_id, limit=1)
    return ticks[0] if ticks else None


def _listed_json(one: Schedule, last: Tick | None) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(view_of(one, 1))
    return view | {"lastTick": msgspec.to_builtins(tick_view(last)) if last is not None else None}


def _row(one: Schedule, last: Tick | None) -> tuple[str, ...]:
    view = view_of(one, 1)
    following = view.next_starts[0] if view.next_starts and view.pause is None else ""
    outcome = f"{last.outcome.value} {last.time}" if last is not None else ""
    return view.id, view.state.value, view.plan.id, following, outcome, view.describes


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--times", default=5, show_default=True, type=click.IntRange(0, 1000), help="How many to come.")
@click.option(
    "--ticks", default=10, show_default=True, type=click.IntRange(0, 1000), help="How many that passed."
)
@store_option
@tenant_option
@json_option
def show(schedule_id: str, times: int, ticks: int, store: str | None, tenant: str, as_json: bool) -> None:
    """Show a schedule: its next times, and what became of the last ones."""

    async def work(parts: Parts) -> tuple[Schedule, list[Tick]]:
        found = await reading.show_schedule(parts, tenant, schedule_id)
        return found, await reading.list_ticks(parts, tenant, schedule_id, limit=ticks) if ticks else []

    found, passed = using_parts(store, work)
    view = view_of(found, times)
    if as_json:
        print_json(
            msgspec.to_builtins(view) | {"ticks": [msgspec.to_builtins(tick_view(one)) for one in passed]}
        )
        return
    _print_facts(view)
    _print_ticks(passed)


def _print_facts(view: ScheduleView) -> None:
    click.echo(f"{view.id}: {view.state.value}, {visible(view.describes)}")
    if view.pause is not None:
        click.echo(f"paused since {view.pause.at} by {visible(view.pause.by)}: {visible(view.pause.reason)}")
    click.echo(
        f"plan {view.plan.id} {view.plan.version}, pool {view.pool}, overlap {view.overlap.value}, "
        f"catch-up {describe_seconds(view.catch_up)}, jitter {describe_seconds(view.jitter)}"
    )
    if view.backfill is not None:
        back = view.backfill
        click.echo(
            f"backfill from {back.first} to {back.until}: {back.started} started, {len(back.open_runs)} open"
        )
    for time in view.waiting:
        click.echo(f"waiting: {time}")
    for run_id in view.open_runs:
        click.echo(f"open run: {run_id}")
    if view.next_times:
        click.echo("next:")
        _print_next(view)


def _print_ticks(ticks: list[Tick]) -> None:
    if not ticks:
        return
    click.echo("last:")
    rows = [(one.time, one.kind.value, _outcome(one), one.run_id or _reason(one)) for one in ticks]
    print_table(("time", "kind", "outcome", "run or reason"), rows)


def _outcome(tick: Tick) -> str:
    return tick.outcome.value if tick.count == 1 else f"{tick.outcome.value} x{tick.count}"


def _reason(tick: Tick) -> str:
    return ": ".join(part for part in (tick.code, tick.message) if part)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--reason", required=True, metavar="TEXT", help="Why; shown with the schedule.")
@store_option
@tenant_option
def pause(schedule_id: str, reason: str, store: str | None, tenant: str) -> None:
    """Start no more runs of a schedule until it is resumed. Open runs continue."""
    using_parts(store, lambda parts: changing.pause_schedule(parts, tenant, schedule_id, reason))
    say(f"schedule {schedule_id} paused; continue with `podium schedule resume {schedule_id}`")


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
@tenant_option
def resume(schedule_id: str, store: str | None, tenant: str) -> None:
    """Let a paused schedule continue with its next time. Times that have passed are not made up for: see `backfill`."""
    resumed = using_parts(store, lambda parts: changing.resume_schedule(parts, tenant, schedule_id))
    say(f"schedule {schedule_id} resumed; next time: {resumed.next_time or 'none'}")


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
@tenant_option
@json_option
def trigger(schedule_id: str, store: str | None, tenant: str, as_json: bool) -> None:
    """Start a run of a schedule now, also if it is paused or another run is open."""
    run_id = using_parts(store, lambda parts: changing.trigger_schedule(parts, tenant, schedule_id))
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
@store_option
@tenant_option
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
        using_parts(store, lambda parts: changing.stop_backfill(parts, tenant, schedule_id))
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

    times = using_parts(store, work)
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
@store_option
@tenant_option
def rm(schedule_id: str, store: str | None, tenant: str) -> None:
    """Remove a schedule and the record of its times. Its runs stay."""
    using_parts(store, lambda parts: changing.remove_schedule(parts, tenant, schedule_id))
    say(f"schedule {schedule_id} removed")
