"""Looking into a run: why it waits, what its steps printed, how it went."""

import asyncio
import codecs
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from podium.cli.following import saying_when_undriven
from podium.cli.output import describe_usage, print_json, usage_cells
from podium.cli.places import given_runs, say
from podium.cli.progress import is_of_an_agent
from podium.cli.reasons import print_reason, reason_json
from podium.cli.restoring import directory_of
from podium.cli.storing import json_option, store_option, tenant_option, using_store
from podium.language.diagnostics import did_you_mean
from podium.log.ids import RunId
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.transitions import TERMINAL
from podium.operations.approvals import Decision, decisions_of
from podium.operations.explaining import Explanation, explain_run
from podium.operations.inputs import InvalidInput
from podium.operations.runs import RunView, show_run
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.runtime.plan_file import load_plan
from podium.runtime.rundir import RunDirectory, file_name
from podium.runtime.spilling import values_of
from podium.text import visible
from podium.wiring import payload_store, runs_folder, system_clock

_PIECE: Final = 1 << 16
# Of a graph in which many steps failed, the first ones are enough.
_MAX_CAUSES: Final = 5


@click.command()
@click.argument("run_id", metavar="RUN")
@store_option
@tenant_option
@json_option
def why(run_id: str, store: str | None, tenant: str, as_json: bool) -> int:
    """Say what a run waits for, until when, and what one can do about it."""

    async def work(opened: Store) -> tuple[Explanation, RunSummary, list[Decision]]:
        view = await show_run(opened, system_clock(), tenant, run_id, limit=1)
        run = await opened.runs.find(tenant, run_id)
        directory = await directory_of(opened, runs_folder(given_runs()), run)
        plan = await load_plan(opened, directory, run)
        kept = values_of(opened, run_id, directory, payload_store)
        explained = await explain_run(opened, run, plan, system_clock().now(), kept)
        return explained, view.summary, await decisions_of(opened, RunId(run_id))

    explained, summary, decided = using_store(store, work)
    again = explained.if_resumed
    if as_json:
        driven = {"driven": explained.undriven is None} if explained.run.status not in TERMINAL else {}
        noted = _noted_json(summary, decided)
        print_json(
            {
                "runId": run_id,
                "status": explained.status,
                "substatus": explained.substatus,
                **driven,
                "waitsFor": [reason_json(one) for one in explained.reasons],
                **({"ifResumed": [reason_json(one) for one in again]} if again else {}),
                **noted,
            }
        )
        return 0
    if explained.run.status in TERMINAL:
        click.echo(f"run {visible(run_id)} waits for nothing: it has ended ({explained.status.lower()}).")
        for reason in again[:_MAX_CAUSES]:
            print_reason(reason)
        if (more := len(again) - _MAX_CAUSES) > 0:
            click.echo(f"  {more} more; `podium runs show {visible(run_id)}` lists all steps")
        _print_noted(summary, decided)
        return 0
    substatus = f" ({explained.substatus})" if explained.substatus is not None else ""
    click.echo(f"run {visible(run_id)} is {explained.status.lower()}{substatus}:")
    if explained.undriven is not None:
        say(f"  {explained.undriven.text()}")
    for reason in explained.reasons:
        print_reason(reason)
    _print_noted(summary, decided)
    return 0


def _noted(summary: RunSummary, decided: Sequence[Decision]) -> list[str]:
    """What a person should know of a run beside its outcome: alerts and warnings (or how many more), decisions."""
    notes = [f"alert {one.code}: {one.message}" for one in summary.alerts]
    notes += [f"warning: step {one.step_id!r}: {one.text}" for one in summary.warnings]
    more = summary.alert_count + summary.warning_count - len(notes)
    return [*notes, *([f"{more} more"] if more else ()), *(one.text for one in decided)]


def _noted_json(summary: RunSummary, decided: Sequence[Decision]) -> dict[str, object]:
    noted = {"alerts": summary.alerts, "warnings": summary.warnings, "approvals": decided}
    return {name: msgspec.to_builtins(found) for name, found in noted.items() if found}


def _print_noted(summary: RunSummary, decided: Sequence[Decision]) -> None:
    for text in _noted(summary, decided):
        click.echo(f"  {visible(text)}")


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
    directory = RunDirectory(runs_folder(given_runs()), run_id)

    async def work(opened: Store) -> None:
        run = await opened.runs.find(tenant, run_id)
        await directory_of(opened, runs_folder(given_runs()), run)
        if step is not None:
            _check_step(step, await load_plan(opened, directory, run))
        shown: dict[Path, int] = {}
        if not follow:
            _print_new(directory, step, shown, raw=raw)
            return
        async with saying_when_undriven(opened, run):
            while True:
                ended = run.status in TERMINAL
                _print_new(directory, step, shown, raw=raw)
                if ended:
                    return
                await asyncio.sleep(0.2)
                run = await opened.runs.find(tenant, run_id)

    using_store(store, work)
    return 0


def _check_step(step: str, plan: Plan) -> None:
    """A step of the plan, at whatever visit and iteration; a name that is none of them is a mistake."""
    known = [path for path, _ in walk(plan.workflow)]
    if plan_path(step) in known:
        return
    inside = [path for path in known if path.rpartition("/")[2] == step]
    near = did_you_mean(step, [*known, *inside])
    listed = ", ".join(visible(path) for path in known[:10]) + (", ..." if len(known) > 10 else "")
    hint = f"Did you mean '{visible(inside[0])}'?" if inside else near
    raise InvalidInput(
        " ".join(filter(None, (f"step {step!r} not found in this run.", hint, f"Its steps: {listed}.")))
    )


# What is shown of a visit: the kinds of its files, and how they are called. Of an agent that is watched what it did and
# answered; what its program wrote is for programs.
_PRINTED: Final = {"out": "", "err": " (stderr)"}
_OF_AN_AGENT: Final = {"progress": "", "txt": " (answer)", "err": " (stderr)"}


def _print_new(directory: RunDirectory, step: str | None, shown: dict[Path, int], *, raw: bool) -> None:
    wanted = None if step is None else file_name(step)
    for file in sorted(directory.steps.glob("*"), key=lambda file: file.stat().st_mtime_ns):
        name, _, kind = file.name.rpartition(".")
        base, _, attempt = name.rpartition(".")
        marks = _OF_AN_AGENT if not raw and is_of_an_agent(file) else _PRINTED
        if kind not in marks or (wanted is not None and base != wanted):
            continue
        size, place = file.stat().st_size, shown.get(file, 0)
        if size < place:
            # Begun again, by whoever has taken the run up.
            place = 0
        if size == place:
            continue
        click.echo(f"== {visible(base.replace('~', '/'))} attempt {attempt}{marks[kind]}")
        shown[file] = _print_from(file, place)


def _print_from(file: Path, place: int) -> int:
    """Print what stands behind this place, piece by piece: a log may be large, and a line endless. Returns its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    is_open = False
    with file.open("rb") as opened:
        opened.seek(place)
        while piece := opened.read(_PIECE):
            lines = decoder.decode(piece).splitlines(keepends=True)
            if not lines:
                continue
            is_open = lines[-1].rstrip("\r\n") == lines[-1]
            shown = "\n".join(visible(line.rstrip("\r\n")) for line in lines)
            click.echo(shown, nl=not is_open)
        place = opened.tell()
    if is_open:
        click.echo()
    return place


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--format", "format_", type=click.Choice(["md", "html", "json"]), default="md", show_default=True
)
@store_option
@tenant_option
def report(run_id: str, format_: str, store: str | None, tenant: str) -> int:
    """Tell how a run went: its status, its steps, what failed and why."""

    async def work(opened: Store) -> tuple[RunView, list[Decision]]:
        view = await show_run(opened, system_clock(), tenant, run_id, limit=10_000)
        return view, await decisions_of(opened, RunId(run_id))

    view, decided = using_store(store, work)
    match format_:
        case "json":
            print_json(_report_json(view, decided))
        case "html":
            click.echo(_report_html(view, decided))
        case _:
            click.echo(_report_md(view, decided))
    return 0


_COLUMNS = ("step", "status", "attempts", "tokens", "dollars", "error")


def _rows(view: RunView) -> list[tuple[str, ...]]:
    return [
        (s.step_id, s.status.value, str(s.attempt_count), *usage_cells(s.usage), _error_of(s))
        for s in view.steps
    ]


def _error_of(step: StepSnapshot) -> str:
    error = step.newest.error
    return error.message or error.code if error is not None else ""


def _used(view: RunView) -> str:
    return f", {describe_usage(view.summary.usage)}" if any(view.summary.usage.values()) else ""


def _report_json(view: RunView, decided: Sequence[Decision]) -> dict[str, object]:
    return {
        "runId": view.run.identity.run_id,
        "planId": view.run.identity.plan_id,
        "status": view.run.status.value,
        "createdAt": view.run.created_at,
        "usage": view.summary.usage,
        "steps": [
            {
                "step": s.step_id,
                "status": s.status.value,
                "attempts": str(s.attempt_count),
                "error": _error_of(s),
                "usage": s.usage,
            }
            for s in view.steps
        ],
        **_noted_json(view.summary, decided),
    }


def _report_md(view: RunView, decided: Sequence[Decision]) -> str:
    def cell(text: str) -> str:
        # As entities: Markdown passes markup on, makes links, and what is escaped twice is not escaped.
        shown = visible(text).replace("&", "&amp;").replace("|", "&#124;")
        return shown.replace("<", "&lt;").replace("](", "]&#40;").replace("`", "&#96;")

    run = view.run
    lines = [
        f"# {cell(run.identity.plan_id)}: {run.status.value.lower()}",
        "",
        f"Run `{run.identity.run_id}`, created {run.created_at}, {run.head} events{_used(view)}.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{' --- |' * len(_COLUMNS)}",
        *(f"| {' | '.join(map(cell, row))} |" for row in _rows(view)),
        *(["", *(f"- {cell(text)}" for text in noted)] if (noted := _noted(view.summary, decided)) else ()),
    ]
    return "\n".join(lines)


def _report_html(view: RunView, decided: Sequence[Decision]) -> str:
    def cell(text: str) -> str:
        return html.escape(visible(text))

    run = view.run
    rows = "\n".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in _rows(view))
    notes = _noted(view.summary, decided)
    noted = f"\n<ul>{''.join(f'<li>{cell(text)}</li>' for text in notes)}</ul>" if notes else ""
    title = f"{cell(run.identity.plan_id)}: {run.status.value.lower()}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font-family:sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:left;"
        "border-bottom:1px solid #8884}</style>\n"
        f"<h1>{title}</h1><p>Run <code>{cell(run.identity.run_id)}</code>, created {run.created_at}{_used(view)}.</p>\n"
        f"<table><tr><th>{'<th>'.join(_COLUMNS)}</tr>\n{rows}\n</table>{noted}</html>"
    )
