"""The report of a run, for people and programs: its status, its steps, what failed and why."""

import asyncio
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import NamedTuple

import msgspec

from podium.log.ids import RunId
from podium.log.snapshots import StepSnapshot
from podium.log.transitions import RunStatus
from podium.log.usage import describe_usage, usage_cells
from podium.operations.approvals import Decision, decisions_of
from podium.operations.changes import Change, Changes
from podium.operations.parts import Parts
from podium.operations.printed import Spelling, as_typed
from podium.operations.report_rows import Failure, ReportRow, failures_of, rows_of
from podium.operations.runs import RunView, show_run
from podium.text import visible

_MAX_STEPS = 10_000
_COLUMNS = ("step", "status", "seconds", "attempts", "tokens", "dollars", "error", "output")


class RunReport(NamedTuple):
    view: RunView
    # Approvals and rejections.
    decided: list[Decision]
    # Changes of steps or parameters.
    changed: list[Change]
    # Its steps, in the order in which they started.
    rows: list[ReportRow]
    # Of a run that failed: where, and what was printed last.
    failures: Sequence[Failure] = ()

    def notes(self) -> list[str]:
        """What a person should know besides the outcome: alerts and warnings (or how many more), decisions."""
        summary = self.view.summary
        notes = [f"alert {one.code}: {one.message}" for one in summary.alerts]
        notes += [f"warning: step {one.step_id!r}: {one.text}" for one in summary.warnings]
        more = summary.alert_count + summary.warning_count - len(notes)
        return [*notes, *([f"{more} more"] if more else ()), *self._decisions()]

    def _decisions(self) -> list[str]:
        return [one.text for one in self.decided] + [one.text for one in self.changed]

    def notes_json(self) -> dict[str, object]:
        summary = self.view.summary
        noted = {"alerts": summary.alerts, "warnings": summary.warnings, "approvals": self.decided}
        noted |= {"changes": self.changed}
        return {name: msgspec.to_builtins(found) for name, found in noted.items() if found}


async def report_run(parts: Parts, tenant_id: str, run_id: str, *, steps: int = _MAX_STEPS) -> RunReport:
    """Raises `RunNotFound`, also for another tenant's run. `steps`: the maximum number of them."""
    view = await show_run(parts.store, parts.clock, tenant_id, run_id, limit=steps)
    changes = Changes()
    decided = await decisions_of(parts.store, RunId(run_id), changes.take)
    directory = parts.directory(run_id)
    rows = rows_of(view.steps, view.summary.started_at, directory)
    is_failed = view.run.status is RunStatus.FAILED
    # In a thread, so that a server can answer other requests.
    failures = await asyncio.to_thread(failures_of, rows, directory) if is_failed else ()
    return RunReport(view, decided, changes.found, rows, failures)


def _rows(report: RunReport) -> list[tuple[str, ...]]:
    return [
        (
            *(row.step_id, row.word, "" if row.seconds is None else f"{row.seconds:.1f}", str(row.attempts)),
            *(*usage_cells(row.usage), row.error, row.output),
        )
        for row in report.rows
    ]


def _error_of(step: StepSnapshot) -> str:
    error = step.newest.error
    return error.message or error.code if error is not None else ""


def _used(view: RunView) -> str:
    return f", {describe_usage(view.summary.usage)}" if any(view.summary.usage.values()) else ""


def as_json(report: RunReport) -> dict[str, object]:
    view = report.view
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
        **report.notes_json(),
    }


def commands_after(report: RunReport, command: Spelling) -> list[str]:
    """What to call about a run that failed, as `command` writes it; empty for any other."""
    run_id = report.view.run.identity.run_id
    if report.view.run.status is not RunStatus.FAILED:
        return []
    steps = [f"podium logs {run_id} {quote(failure.row.step_id)}" for failure in report.failures]
    return list(map(command, [*(steps or [f"podium logs {run_id}"]), f"podium resume {run_id}"]))


def as_markdown(report: RunReport, command: Spelling = as_typed) -> str:
    view, run = report.view, report.view.run
    lines = [
        f"# {_cell(run.identity.plan_id)}: {run.status.value.lower()}",
        "",
        f"Run `{run.identity.run_id}`, created {run.created_at}, {run.head} events{_used(view)}.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{' --- |' * len(_COLUMNS)}",
        *(f"| {' | '.join(map(_cell, row))} |" for row in _rows(report)),
        *(["", *(f"- {_cell(text)}" for text in noted)] if (noted := report.notes()) else ()),
        *_failed_lines(report, command),
    ]
    return "\n".join(lines)


def _failed_lines(report: RunReport, command: Spelling) -> Iterator[str]:
    """The last lines of each failed step, indented: in such a block Markdown passes nothing on."""
    for row, printed in report.failures:
        yield from ("", f"## {_cell(row.step_id)}: {_cell(row.error)}", "")
        yield from (f"    {visible(line)}" for line in printed)
        yield from ("", f"All of it: {', '.join(map(_cell, row.files))}")
    if commands := commands_after(report, command):
        yield from ("", "Next:", "", *(f"    {visible(one)}" for one in commands))


def _cell(text: str) -> str:
    # As entities: Markdown passes markup on, creates links, and undoes an escape when it is escaped twice.
    shown = visible(text).replace("&", "&amp;").replace("|", "&#124;")
    return shown.replace("<", "&lt;").replace("](", "]&#40;").replace("`", "&#96;")
