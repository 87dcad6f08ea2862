"""How a run went, for people and programs: its status, its steps, what failed and why."""

from typing import NamedTuple

import msgspec

from podium.log.ids import RunId
from podium.log.snapshots import StepSnapshot
from podium.log.usage import describe_usage, usage_cells
from podium.operations.approvals import Decision, decisions_of
from podium.operations.changes import Change, Changes
from podium.operations.parts import Parts
from podium.operations.runs import RunView, show_run
from podium.text import visible

_MAX_STEPS = 10_000
_COLUMNS = ("step", "status", "attempts", "tokens", "dollars", "error")


class RunReport(NamedTuple):
    view: RunView
    # Who approved or rejected what.
    decided: list[Decision]
    # Who changed steps or parameters.
    changed: list[Change]

    def notes(self) -> list[str]:
        """What a person should know beside the outcome: alerts and warnings (or how many more), decisions."""
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
    """Raises `RunNotFound`, for another tenant's run too. `steps`: at most so many of them."""
    view = await show_run(parts.store, parts.clock, tenant_id, run_id, limit=steps)
    changes = Changes()
    decided = await decisions_of(parts.store, RunId(run_id), changes.take)
    return RunReport(view, decided, changes.found)


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


def as_markdown(report: RunReport) -> str:
    def cell(text: str) -> str:
        # As entities: Markdown passes markup on, makes links, and what is escaped twice is not escaped.
        shown = visible(text).replace("&", "&amp;").replace("|", "&#124;")
        return shown.replace("<", "&lt;").replace("](", "]&#40;").replace("`", "&#96;")

    view, run = report.view, report.view.run
    lines = [
        f"# {cell(run.identity.plan_id)}: {run.status.value.lower()}",
        "",
        f"Run `{run.identity.run_id}`, created {run.created_at}, {run.head} events{_used(view)}.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{' --- |' * len(_COLUMNS)}",
        *(f"| {' | '.join(map(cell, row))} |" for row in _rows(view)),
        *(["", *(f"- {cell(text)}" for text in noted)] if (noted := report.notes()) else ()),
    ]
    return "\n".join(lines)


def as_html(report: RunReport) -> str:
    from html import escape

    def cell(text: str) -> str:
        return escape(visible(text))

    view, run = report.view, report.view.run
    rows = "\n".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in _rows(view))
    notes = report.notes()
    noted = f"\n<ul>{''.join(f'<li>{cell(text)}</li>' for text in notes)}</ul>" if notes else ""
    title = f"{cell(run.identity.plan_id)}: {run.status.value.lower()}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font-family:sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:left;"
        "border-bottom:1px solid #8884}</style>\n"
        f"<h1>{title}</h1><p>Run <code>{cell(run.identity.run_id)}</code>, created {run.created_at}{_used(view)}.</p>\n"
        f"<table><tr><th>{'<th>'.join(_COLUMNS)}</tr>\n{rows}\n</table>{noted}</html>"
    )
