"""Rows of a report, one per step, in the order in which the steps started; times are converted to durations
here.

The summary at the end of a run, `podium timeline`, and reports as Markdown and HTML show these rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from podium.log.snapshots import AttemptSnapshot, StepSnapshot
from podium.log.times import Timestamp, moment
from podium.log.transitions import StepStatus
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.capturing import tail_of

_MAX_FAILURES: Final = 3
_MAX_LINES: Final = 10

_WORDS = {
    StepStatus.SUCCESS: "ok",
    StepStatus.FAILED: "failed",
    StepStatus.SKIPPED: "skipped",
    StepStatus.RUNNING: "running",
    StepStatus.PENDING: "waiting",
}


class ReportRow(NamedTuple):
    step_id: str
    # `ok`, `failed`, `stopped`, `skipped`, `running`, `waiting`.
    word: str
    attempts: int
    # Since the start of the run; None for a step that never started.
    start: float | None
    # Includes all its attempts and the delays between them; None while it runs.
    seconds: float | None
    usage: dict[str, float]
    error: str
    # Where what it printed is, below the directory of the run: its output first, then its error output.
    files: tuple[str, ...]

    @property
    def output(self) -> str:
        """The first of them; empty if it printed nothing."""
        return self.files[0] if self.files else ""

    @property
    def end(self) -> float | None:
        return self.start + self.seconds if self.start is not None and self.seconds is not None else None


def rows_of(
    steps: Iterable[StepSnapshot], started_at: Timestamp | None, directory: RunDirectory
) -> list[ReportRow]:
    rows = [_row(step, started_at, directory) for step in steps]
    return sorted(rows, key=lambda row: (row.start is None, row.start or 0.0))


def _row(step: StepSnapshot, started_at: Timestamp | None, directory: RunDirectory) -> ReportRow:
    first, newest = (*step.earlier[-1:], step.newest)[0], step.newest
    start = first.started_at or newest.completed_at
    error = newest.error
    return ReportRow(
        step.step_id,
        word_of(step),
        step.attempt_count,
        _between(started_at, start),
        _between(first.started_at, newest.completed_at),
        step.usage,
        (error.message or error.code) if error is not None else "",
        tuple(_files(step.step_id, newest, directory)),
    )


def word_of(step: StepSnapshot) -> str:
    """The status in one word; what was stopped did not fail."""
    return "stopped" if step.newest.stopped else _WORDS[step.status]


def _between(start: Timestamp | None, end: Timestamp | None) -> float | None:
    if start is None or end is None:
        return None
    return max(0.0, (moment(end) - moment(start)).total_seconds())


def _files(step_id: str, attempt: AttemptSnapshot, directory: RunDirectory) -> Iterator[str]:
    """Of an agent that is watched its answer and what it did: what its program writes is for programs."""

    def file_of(kind: str) -> Path:
        return directory.step_file(step_id, attempt.logical_attempt_id, kind)

    for kind in ("txt", "progress", "err") if file_of("progress").exists() else ("out", "err"):
        if _has_content(file := file_of(kind)):
            yield str(file.relative_to(directory.path))


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


class Failure(NamedTuple):
    """A step that failed, and the last lines of what it printed."""

    row: ReportRow
    lines: tuple[str, ...]


def failures_of(rows: Sequence[ReportRow], directory: RunDirectory) -> list[Failure]:
    """The first few that printed something. It reads files."""
    failed = [row for row in without_items(rows) if row.word == "failed" and row.files]
    return [
        Failure(row, tuple(line for file in row.files for line in _last_lines(directory.path / file)))
        for row in failed[:_MAX_FAILURES]
    ]


def _last_lines(file: Path) -> list[str]:
    return tail_of(file).rstrip("\n").splitlines()[-_MAX_LINES:]


def without_items(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """For loops, only the items that failed, because a loop can have thousands."""
    return [row for row in rows if "[" not in row.step_id or row.word == "failed"]


def total_seconds(rows: Iterable[ReportRow]) -> float:
    """From the start of the run to the last end of a step."""
    return max((row.end for row in rows if row.end is not None), default=0.0)
