"""The table at the end of a run: its steps in the order in which they ran, with their times as bars.

`podium timeline` prints the same table for any run.
"""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from podium.cli.durations import bar, spell_seconds
from podium.cli.hints import say
from podium.cli.truncate import cut, cut_middle
from podium.log.usage import usage_cells
from podium.operations.report_rows import ReportRow, total_seconds, without_items
from podium.operations.reports import RunReport
from podium.runtime.rundir import RunDirectory
from podium.text import padded, visible, width_of

_MAX_ROWS: Final = 40
_STYLES: Final = {"ok": "green", "failed": "bold red", "stopped": "magenta", "running": "yellow"}
_SHARE_OF_NAMES: Final = 0.3
_MIN_BAR: Final = 8
# The folder is in the heading of the column, because names of files need the space.
_OUTPUTS: Final = "logs/steps/"


def print_summary(report: RunReport, runs: Path) -> None:
    """For a run that has ended; for each failed step, its last lines, where its whole output is, and what to
    do.
    """
    run_id = report.view.run.identity.run_id
    shown = without_items(report.rows)
    print_rows(shown)
    directory = RunDirectory(runs, run_id)
    for failure in report.failures:
        row = failure.row
        click.echo(f"\n{visible(row.step_id)}: {visible(row.error)}")
        for line in failure.lines:
            click.echo(f"  | {visible(line)}")
        for file in row.files:
            say(f"  {directory.path / file}")
        say(f"  `podium logs {run_id} {visible(quote(row.step_id))}`")
    if report.failures:
        click.echo()


def print_rows(rows: Sequence[ReportRow], *, most: int = _MAX_ROWS) -> None:
    console = Console(soft_wrap=True, width=get_terminal_size().columns, highlight=False)
    for line in table_of(rows[:most], console.width):
        console.print(line)
    if len(rows) > most:
        console.print(Text(f"{len(rows) - most} more; `podium report RUN` lists all steps", style="dim"))


def table_of(rows: Sequence[ReportRow], width: int) -> list[Text]:
    """Lines that fit the width."""
    if not rows:
        return []
    cells = [_cells(row) for row in rows]
    headings = ("", "time", "tries", "cost", _OUTPUTS)
    columns = [
        (heading, [cell[at] for cell in cells])
        for at, heading in enumerate(headings)
        if any(cell[at] for cell in cells)
    ]
    widths = [max(len(heading), *map(width_of, texts)) for heading, texts in columns]
    longest = max(len("step"), *(width_of(visible(row.step_id)) for row in rows))
    names = min(longest, max(12, int(width * _SHARE_OF_NAMES)))
    if columns[-1][0] == _OUTPUTS:
        widths[-1] = min(widths[-1], max(len(_OUTPUTS), width // 5))
    room = max(_MIN_BAR, width - names - sum(widths) - 2 * (len(widths) + 1) - 1)
    total = total_seconds(rows)
    lines = [_headline([heading for heading, _ in columns], names, widths, room)]
    for number, row in enumerate(rows):
        line = Text(padded(cut_middle(visible(row.step_id), names), names), no_wrap=True, overflow="crop")
        for at, (heading, texts) in enumerate(columns):
            if heading == "time":
                _append_bar(line, row, total, room)
            style = _STYLES.get(row.word, "dim") if not heading else "dim" if heading == _OUTPUTS else ""
            line.append(f"  {padded(cut_middle(texts[number], widths[at]), widths[at])}", style=style)
        line.rstrip()
        lines.append(line)
    return lines


def _headline(headings: Sequence[str], names: int, widths: Sequence[int], room: int) -> Text:
    line = Text("step".ljust(names), style="dim", no_wrap=True, overflow="crop")
    for heading, width in zip(headings, widths, strict=True):
        if heading == "time":
            line.append(" " * (room + 2))
        line.append(f"  {heading.ljust(width)}")
    line.rstrip()
    return line


def _append_bar(line: Text, row: ReportRow, total: float, room: int) -> None:
    drawn = (
        bar(row.start, row.end if row.end is not None else total, total, room)
        if row.start is not None
        else ""
    )
    line.append(f"  {cut(drawn, room).ljust(room)}", style=_STYLES.get(row.word, "dim"))


def _cells(row: ReportRow) -> tuple[str, str, str, str, str]:
    tokens, dollars = usage_cells(row.usage)
    cost = ", ".join(
        part for part in (f"${dollars}" if dollars else "", f"{tokens} tok" if tokens else "") if part
    )
    seconds = spell_seconds(row.seconds) if row.seconds is not None else ""
    return (
        row.word,
        seconds,
        str(row.attempts) if row.attempts > 1 else "",
        cost,
        visible(row.output.removeprefix(_OUTPUTS)),
    )
