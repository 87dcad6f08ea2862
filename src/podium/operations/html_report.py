"""A report as one self-contained HTML file: no script, nothing loaded, and every text escaped in one place.

It contains what the other reports contain, and also the picture of the run, its timeline, the output of
steps, and the changes that agents made.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from podium.drawing import drawn_picture
from podium.drawing.picture import Picture
from podium.log.usage import describe_usage, usage_cells
from podium.operations.parts import Parts
from podium.operations.printed import Spelling, as_typed
from podium.operations.report_rows import ReportRow, total_seconds
from podium.operations.reports import RunReport, commands_after, report_run
from podium.operations.run_drawing import picture_of_run
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.capturing import tail_of
from podium.text import visible

_MAX_OUTPUTS: Final = 200
_MAX_DIFF_BYTES: Final = 256 * 1024
_STYLE: Final = """
:root { color-scheme: light dark; --ok: #1f7a4d; --failed: #c53030; --running: #b7791f; --stopped: #805ad5;
  --dim: #52606d; --line: #8884; --soft: #8881 }
@media (prefers-color-scheme: dark) { :root { --ok: #4cc38a; --failed: #f87171; --running: #e0a526;
  --stopped: #b794f4; --dim: #a3b0bd } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem }
.facts { color: var(--dim); margin: .3rem 0 0 }
.badge { border-radius: 1rem; border: 1px solid; font-size: .8rem; font-weight: 600; margin-left: .6rem;
  padding: .1rem .7rem; vertical-align: middle }
table { border-collapse: collapse; width: 100% }
th { color: var(--dim); font-weight: 500; font-size: .85rem }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top }
td.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap }
td.step { max-width: 22rem; overflow-wrap: anywhere }
td.time { min-width: 14rem; width: 35% }
.track { background: var(--soft); border-radius: 3px; height: .8rem; margin-top: .35rem; position: relative }
.bar { border-radius: 3px; height: 100%; min-width: 3px; position: absolute; background: var(--dim) }
.ok { color: var(--ok) } .failed { color: var(--failed) } .running, .waiting { color: var(--running) }
.stopped { color: var(--stopped) } .skipped { color: var(--dim) }
.bar.ok { background: var(--ok) } .bar.failed { background: var(--failed) } .bar.running { background: var(--running) }
.bar.stopped { background: var(--stopped) }
pre { background: var(--soft); border-radius: 6px; font: 12.5px/1.45 ui-monospace, monospace; margin: .4rem 0;
  overflow-x: auto; padding: .7rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere }
details { border-bottom: 1px solid var(--line); padding: .3rem 0 } summary { cursor: pointer }
.picture { overflow-x: auto } .picture svg { height: auto; max-width: 100% }
.add { color: var(--ok) } .del { color: var(--failed) } .hunk { color: var(--stopped) }
"""


class Printed(NamedTuple):
    """The end of a step's output, and the file with all of it."""

    row: ReportRow
    file: str
    text: str


class Diff(NamedTuple):
    name: str
    text: str


class WholeReport(NamedTuple):
    report: RunReport
    picture: Picture
    printed: Sequence[Printed]
    diffs: Sequence[Diff]


async def whole_report(parts: Parts, tenant_id: str, run_id: str) -> WholeReport:
    """Raises `RunNotFound`, also for another tenant's run."""
    report = await report_run(parts, tenant_id, run_id)
    picture = await picture_of_run(parts, tenant_id, run_id)
    # In a thread, so that a server can answer other requests.
    printed, diffs = await asyncio.to_thread(_files, parts.directory(run_id), report.rows)
    return WholeReport(report, picture, printed, diffs)


def _files(directory: RunDirectory, rows: Sequence[ReportRow]) -> tuple[list[Printed], list[Diff]]:
    # Output of failed steps takes precedence.
    wanted = sorted(rows, key=lambda row: row.word != "failed")
    files = [(row, file) for row in wanted for file in row.files]
    printed = [Printed(row, file, tail_of(directory.path / file)) for row, file in files[:_MAX_OUTPUTS]]
    return printed, list(_diffs(directory))


def _diffs(directory: RunDirectory) -> Iterator[Diff]:
    folder = directory.artifacts / "diffs"
    for file in sorted(folder.glob("*.diff")) if folder.is_dir() else ():
        if file.is_file() and not file.is_symlink():
            yield Diff(file.name, _start_of(file))


def _start_of(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_MAX_DIFF_BYTES).decode("utf-8", "replace")


def html_of(whole: WholeReport, command: Spelling = as_typed) -> str:
    """`command`: a command as it has to be typed where the report is read."""
    return "\n".join(_lines(whole, command)) + "\n"


def _lines(whole: WholeReport, command: Spelling) -> Iterator[str]:
    report = whole.report
    run, status = report.view.run.identity, report.view.run.status.value.lower()
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{_text(run.run_id)}: {status}</title><style>{_STYLE}</style></head><body>"
    yield f'<h1>{_text(run.plan_id)}<span class="badge {_class(status)}">{status}</span></h1>'
    yield f'<p class="facts">{_text(_facts(report))}</p>'
    if report.view.summary.failure is not None:
        yield f'<p class="failed">{_text(report.view.summary.failure.text)}</p>'
    yield from _notes(report)
    if commands := commands_after(report, command):
        yield f"<p>Next:<pre>{_lines_of(commands)}</pre>"
    yield f'<h2>Graph</h2><div class="picture">{drawn_picture(whole.picture, "svg")}</div>'
    yield from _timeline(report.rows)
    yield from _outputs(whole.printed)
    yield from _changes(whole.diffs)
    yield "</body></html>"


def _facts(report: RunReport) -> str:
    run, summary = report.view.run, report.view.summary
    facts = [f"run {run.identity.run_id}", f"plan {run.identity.plan_version}", f"created {run.created_at}"]
    if summary.total_duration_ms is not None:
        facts.append(f"took {summary.total_duration_ms / 1000:.1f} s")
    if any(summary.usage.values()):
        facts.append(describe_usage(summary.usage))
    return " · ".join([*facts, f"{run.head} events"])


def _notes(report: RunReport) -> Iterator[str]:
    notes = report.notes()
    if notes:
        yield f"<ul>{''.join(f'<li>{_text(one)}</li>' for one in notes)}</ul>"


def _timeline(rows: Sequence[ReportRow]) -> Iterator[str]:
    total = total_seconds(rows)
    with_cost = any(row.usage for row in rows)
    cost = "<th>tokens<th>dollars" if with_cost else ""
    yield f"<h2>Timeline</h2><table><tr><th>step<th>status<th>time<th>seconds<th>tries{cost}<th>error</tr>"
    for row in rows:
        figures = (
            "".join(f'<td class="number">{_text(one)}' for one in usage_cells(row.usage)) if with_cost else ""
        )
        seconds = f"{row.seconds:.1f}" if row.seconds is not None else ""
        yield (
            f'<tr><td class="step">{_text(row.step_id)}<td class="{row.word}">{row.word}'
            f'<td class="time">{_bar(row, total)}<td class="number">{seconds}<td class="number">{row.attempts}'
            f"{figures}<td>{_text(row.error)}</tr>"
        )
    yield "</table>"


def _bar(row: ReportRow, total: float) -> str:
    if row.start is None or total <= 0:
        return ""
    end = row.end if row.end is not None else total
    left, width = 100 * row.start / total, 100 * max(0.0, end - row.start) / total
    style = f"left:{min(left, 99.5):.2f}%;width:{width:.2f}%"
    return f'<div class="track"><div class="bar {row.word}" style="{style}"></div></div>'


def _outputs(printed: Sequence[Printed]) -> Iterator[str]:
    if not printed:
        return
    yield "<h2>Outputs</h2>"
    for one in printed:
        is_open = " open" if one.row.word == "failed" else ""
        yield (
            f'<details{is_open}><summary><span class="{one.row.word}">{one.row.word}</span> {_text(one.row.step_id)} '
            f"<small>{_text(one.file)}</small></summary><pre>{_block(one.text)}</pre></details>"
        )


def _changes(diffs: Sequence[Diff]) -> Iterator[str]:
    if not diffs:
        return
    yield "<h2>Changes</h2>"
    for one in diffs:
        lines = "\n".join(map(_diff_line, one.text.splitlines()))
        yield f"<details open><summary>{_text(one.name)}</summary><pre>{lines}</pre></details>"


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1])
    return f'<span class="{kind}">{_text(line)}</span>' if kind else _text(line)


def _class(status: str) -> str:
    return {"completed": "ok", "cancelled": "stopped"}.get(
        status, status if status == "failed" else "running"
    )


def _block(text: str) -> str:
    return _lines_of(text.splitlines())


def _lines_of(lines: Iterable[str]) -> str:
    return "\n".join(map(_text, lines))


def _text(text: str) -> str:
    """All text must be written to the file by this function."""
    return escape(visible(text), quote=True)
