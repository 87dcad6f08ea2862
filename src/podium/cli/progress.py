"""The output of a running run: plain lines for pipes, a live view at a terminal, JSON for programs."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from podium.cli.end_notes import failed_steps, warnings_of
from podium.cli.hints import print_reason, say
from podium.cli.output import spelled_json
from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.notes import RunNotes
from podium.log.payloads import (
    INTERRUPTED,
    RetryScheduled,
    RunPaused,
    Signal,
    StepEnd,
    StepStarted,
    fields_of,
    payload_of,
)
from podium.log.transitions import RUN_ENDS, STEP_ENDS
from podium.log.usage import describe_usage
from podium.plan.plan import Plan
from podium.ports.engine import Notice, RunEnded
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.capturing import tail_of
from podium.runtime.view_trouble import FILES
from podium.text import visible

if TYPE_CHECKING:
    from podium.machine.progress import Progress
    from podium.operations.explaining import Reason

_LOOK_SECONDS: Final = 0.1


class ProgressView(Protocol):
    def begin(self, run_id: RunId) -> None: ...

    def observe(self, records: Sequence[EventRecord]) -> None: ...

    def recall(self, notes: RunNotes) -> None:
        """What was recorded before this process drove the run: not shown, but included in the summary at the
        end.
        """
        ...

    def notice(self, notice: Notice) -> None:
        """What this process waits for."""
        ...

    def waits(self, reasons: "Sequence[Reason]") -> None:
        """Everything that the run needs from a person now; all of it must be shown."""
        ...

    def progress(self, progress: "Progress") -> None:
        """What is in progress, whenever that may have changed."""
        ...

    async def follow(self) -> None:
        """Show what is not in events, until cancelled."""
        ...

    def close(self) -> None: ...

    def end(self, ended: RunEnded) -> None: ...


def progress_view(
    plan: Plan | None, runs: Path, *, as_json: bool, quiet: bool, stream: bool, plain: bool = False
) -> ProgressView:
    """`plain`: nothing is redrawn repeatedly, which a screen reader would read aloud each time."""
    if as_json:
        return JsonLines()
    if quiet:
        return Quiet(runs)
    if os.environ.get("GITHUB_ACTIONS") == "true" and not stream:
        from podium.cli.github_log import GithubLog

        return GithubLog(runs)
    if sys.stdout.isatty() and not stream and not plain:
        from podium.cli.live import LiveView

        return LiveView(runs, plan.metadata.name if plan is not None else "")
    return Lines(runs, stream=stream)


def shows_table(view: ProgressView) -> bool:
    """For people: programs that read lines from a pipe do not expect one."""
    return isinstance(view, Lines) and (sys.stdout.isatty() or view.is_for_people)


class Quiet:
    """Shows only the end."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.run_id = ""
        self.began = time.monotonic()
        # Afterwards this process may still deliver notifications, for example.
        self._ended: float | None = None
        self._notes = RunNotes()
        self._turns = Turns()

    def begin(self, run_id: RunId) -> None:
        self.run_id = run_id

    @property
    def usage(self) -> dict[str, float]:
        """The usage of the run so far."""
        return self._notes.usage

    def observe(self, records: Sequence[EventRecord]) -> None:
        self.take_notes(records)

    def recall(self, notes: RunNotes) -> None:
        self._notes = notes

    def take_notes(self, records: Sequence[EventRecord]) -> None:
        self._notes(records)
        if records and records[-1].event_type in RUN_ENDS:
            self._ended = time.monotonic()

    def notice(self, notice: Notice) -> None:
        if notice.subject == FILES:
            click.echo(visible(notice.text), err=True)

    def waits(self, reasons: "Sequence[Reason]") -> None:
        self._turns.print_turns(reasons, err=True)

    def progress(self, progress: "Progress") -> None:
        pass

    def ask(self, step: str | None, prompt: str) -> None:
        """Show the question about a step at this terminal."""
        if step is not None:
            click.echo(f"{visible(step)}: {prompt}")

    def typed(self, text: str) -> None:
        """Lines were typed at the terminal on which this is shown."""

    async def follow(self) -> None:
        pass

    def close(self) -> None:
        pass

    def end(self, ended: RunEnded) -> None:
        ended_at = self._ended if self._ended is not None else time.monotonic()
        took = f"{ended_at - self.began:.1f} s"
        word = ended.event_type.removeprefix("Run").lower()
        reason = f": {visible(ended.error)}" if ended.error else f" ({ended.reason})" if ended.reason else ""
        failed = failed_steps(self._notes) if ended.event_type == EventType.RUN_COMPLETED else ""
        click.echo(f"{word} after {took}{reason}{failed and '; '}{failed}")
        for warning in warnings_of(self._notes):
            click.echo(f"warning: {warning}")
        if any(self.usage.values()):
            click.echo(f"used {describe_usage(self.usage)}")
        self.say_where(ended)
        if ended.exit_code:
            self.say_next(ended)

    def say_where(self, ended: RunEnded) -> None:
        """Print where the results of the run are."""
        folder = self.runs / ended.run_id
        click.echo(f"see {folder}/ for state.json, logs/ and artifacts/")

    def say_next(self, ended: RunEnded) -> None:
        """Print what to do about a run that did not succeed."""
        say(f"next: `podium logs {ended.run_id}` or `podium resume {ended.run_id}`")


class Lines(Quiet):
    """One line per event."""

    # True if it is for people even without a terminal.
    is_for_people = False

    def __init__(self, runs: Path, *, stream: bool) -> None:
        super().__init__(runs)
        self._stream = stream
        # How much of each running step's output has been shown.
        self._shown: dict[Path, tuple[str, int]] = {}

    def begin(self, run_id: RunId) -> None:
        super().begin(run_id)
        click.echo(f"run {run_id}")

    def observe(self, records: Sequence[EventRecord]) -> None:
        self.take_notes(records)
        retried = retried_steps(records)
        for record in records:
            ended = record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED)
            if ended and self._stream:
                self._show_rest(record)
            line = line_of(record, retried)
            if line is not None:
                say(f"{record.emitted_at[11:19]} {line}")
            if record.event_type == EventType.STEP_STARTED and self._stream:
                self._shown |= dict.fromkeys(self._all_files(record), (record.step_id or "", 0))
            elif record.event_type == EventType.STEP_FAILED and not self._stream:
                self._show_end(record)
        print_reuse(records)

    def notice(self, notice: Notice) -> None:
        click.echo(f"{time.strftime('%H:%M:%S', time.gmtime())} !  {visible(notice.text)}")

    def waits(self, reasons: "Sequence[Reason]") -> None:
        self._turns.print_turns(reasons, err=False)

    async def follow(self) -> None:
        """With --stream: the output of steps, as it is written."""
        while self._stream:
            await asyncio.sleep(_LOOK_SECONDS)
            for file in list(self._shown):
                if people_read(file):
                    self._show_new(file, whole_lines=True)

    def _all_files(self, record: EventRecord) -> list[Path]:
        directory = RunDirectory(self.runs, record.run.run_id)
        kinds = ("progress", "out", "err")
        return [directory.step_file(record.step_id or "", record.logical_attempt_id, kind) for kind in kinds]

    def _files(self, record: EventRecord) -> list[Path]:
        """The output files for people."""
        return [file for file in self._all_files(record) if people_read(file)]

    def _show_rest(self, record: EventRecord) -> None:
        for file in self._files(record):
            if file in self._shown:
                self._show_new(file, whole_lines=False)
        for file in self._all_files(record):
            self._shown.pop(file, None)

    def _show_new(self, file: Path, *, whole_lines: bool) -> None:
        step, after = self._shown[file]
        try:
            with file.open("rb") as opened:
                opened.seek(after)
                content = opened.read()
        except OSError:
            return
        if whole_lines:
            content = content[: content.rfind(b"\n") + 1]
        self._shown[file] = (step, after + len(content))
        for line in content.decode("utf-8", "replace").splitlines():
            click.echo(f"         {visible(step)} | {visible(line)}")

    def _show_end(self, record: EventRecord) -> None:
        """For a failure, the last lines, which usually contain the reason."""
        for file in self._files(record):
            for line in tail_of(file).rstrip("\n").splitlines()[-10:]:
                click.echo(f"         {visible(record.step_id or '')} | {visible(line)}")


def people_read(file: Path) -> bool:
    """False for the raw output of an agent's program: people get its progress."""
    from podium.operations.logs import is_of_an_agent

    return file.suffix != ".out" or not is_of_an_agent(file)


class JsonLines:
    """Every event, as it is in the log."""

    def __init__(self) -> None:
        self._turns = Turns()

    def begin(self, run_id: RunId) -> None:
        pass

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            click.echo(spelled_json(encode_envelope(record).decode()))

    def recall(self, notes: RunNotes) -> None:
        pass

    def notice(self, notice: Notice) -> None:
        # Programs get events and nothing else.
        click.echo(visible(notice.text), err=True)

    def waits(self, reasons: "Sequence[Reason]") -> None:
        self._turns.print_turns(reasons, err=True)

    def progress(self, progress: "Progress") -> None:
        pass

    async def follow(self) -> None:
        pass

    def close(self) -> None:
        pass

    def end(self, ended: RunEnded) -> None:
        pass


class Turns:
    """What was reported as waiting for a person: each item once, for as long as it waits."""

    def __init__(self) -> None:
        self._said: frozenset[Reason] = frozenset()

    def print_turns(self, reasons: "Sequence[Reason]", *, err: bool) -> None:
        for reason in reasons:
            if reason not in self._said:
                print_reason(reason, err=err)
        self._said = frozenset(reasons)


def print_reuse(records: Sequence[EventRecord]) -> None:
    for record in records:
        if b'"reusedFrom"' in record.payload or b'"changed"' in record.payload:
            _print_step_reuse(record)
        elif b'"askedAgain"' in record.payload:
            for path in fields_of(record).get("askedAgain") or ():
                click.echo(
                    f"         {visible(str(path))}: asked again: its approval was given for another plan"
                )


def _print_step_reuse(record: EventRecord) -> None:
    payload = fields_of(record)
    step, earlier = visible(record.step_id or ""), payload.get("reusedFrom")
    if isinstance(earlier, dict):
        run_id = visible(str(earlier.get("runId")))
        click.echo(f"         {step}: reused from run {run_id}: same command, inputs and files")
    elif earlier is not None and record.event_type in STEP_ENDS:
        approval = "; its approval was given for the same plan" if "signalId" in payload else ""
        click.echo(f"         {step}: taken over from run {visible(str(earlier))}{approval}")
    elif "changed" in payload and earlier is None:
        click.echo(f"         {step}: changed: {visible(str(payload['changed']))}")


def retried_steps(records: Sequence[EventRecord]) -> frozenset[tuple[str, int]]:
    """The attempts that failed and are retried; a retry is decided together with the failure."""
    return frozenset(
        (record.step_id or "", record.logical_attempt_id)
        for record in records
        if record.event_type == EventType.STEP_RETRY_SCHEDULED
    )


def line_of(record: EventRecord, retried: frozenset[tuple[str, int]] = frozenset()) -> str | None:
    """An event as a line; None for what is irrelevant to people. A failure that is retried has a mark of its
    own.
    """
    step = visible(record.step_id or "")
    again = f" (attempt {record.logical_attempt_id})" if record.logical_attempt_id > 1 else ""
    match record.event_type:
        case EventType.STEP_STARTED:
            started = payload_of(record, StepStarted)
            if started.approval is not None:
                return f"?  {step}: {visible(started.approval.message)}"
            return f">  {step}{again}{' (overridden)' if started.overridden_by else ''}"
        case EventType.STEP_COMPLETED:
            end = payload_of(record, StepEnd)
            took = f" {end.duration_ms / 1000:.1f} s" if end.duration_ms is not None else ""
            return f"ok {step}{again}{took}{_warned(step, end)}"
        case EventType.STEP_FAILED:
            end = payload_of(record, StepEnd)
            mark = "~" if (record.step_id, record.logical_attempt_id) in retried else "x"
            return f"{mark}  {step}{again}: {visible(end.failure)}{_warned(step, end)}"
        case EventType.STEP_INTERRUPTED:
            return f"x  {step}{_attempt_in_doubt(record)}: {INTERRUPTED.message}"
        case EventType.STEP_SKIPPED:
            return f"-  {step} skipped: {visible(payload_of(record, StepEnd).reason)}"
        case EventType.STEP_RETRY_SCHEDULED:
            return f"~  {step} is tried again at {payload_of(record, RetryScheduled).due[11:19]}"
        case EventType.RUN_PAUSED:
            paused = payload_of(record, RunPaused)
            if paused.code == "BUDGET_EXCEEDED":
                return f"$  BUDGET_EXCEEDED: not enough budget left to start {visible(str(paused.step_id))}"
            return "paused"
        case EventType.RUN_RESUMED:
            return "resumed"
        case EventType.BUDGET_CHARGED:
            return "\n         ".join(map(_soft_limit, fields_of(record).get("softLimits", ()))) or None
        case EventType.SIGNAL_REJECTED:
            signal = payload_of(record, Signal)
            return f"!  refused: {visible(signal.signal_type)}: {visible(signal.reason)}"
        case EventType.SIGNAL_IGNORED:
            return f"!  ignored: {visible(payload_of(record, Signal).reason)}"
        case _:
            return None


def _attempt_in_doubt(record: EventRecord) -> str:
    """The doubt about an attempt that was stopped is recorded under the next number."""
    attempt = fields_of(record).get("stopped", record.logical_attempt_id)
    return f" (attempt {attempt})" if attempt > 1 else ""


def _warned(step: str, end: StepEnd) -> str:
    return "".join(f"\n         {step} | warning: {visible(text)}" for text in end.warnings)


def _soft_limit(limit: dict[str, Any]) -> str:
    whose = f"step {visible(str(limit['of']))}" if "of" in limit else "the run"
    most = f" of {limit['usd']}" if "usd" in limit else ""
    return f"$  the soft limit of {whose} is reached: {limit['spentUsd']:.4f}{most} dollars are spent"
