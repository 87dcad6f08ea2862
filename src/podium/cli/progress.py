"""How a run looks while it goes: plain lines for pipes, a live view at a terminal, JSON for programs."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from podium.core.envelope import encode_envelope
from podium.language.diagnostics import visible
from podium.model.events import EventRecord, EventType
from podium.model.ids import RunId
from podium.model.plan import Plan
from podium.ports.engine import RunEnded
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.capturing import tail_of


class ProgressView(Protocol):
    def begin(self, run_id: RunId) -> None: ...

    def observe(self, records: Sequence[EventRecord]) -> None: ...

    def close(self) -> None: ...

    def end(self, ended: RunEnded) -> None: ...


def progress_view(plan: Plan | None, runs: Path, *, as_json: bool, quiet: bool, stream: bool) -> ProgressView:
    if as_json:
        return JsonLines()
    if quiet:
        return Quiet(runs)
    if sys.stdout.isatty() and not stream:
        from podium.cli.live import LiveView

        return LiveView(runs, plan.metadata.name if plan is not None else "")
    return Lines(runs, stream=stream)


class Quiet:
    """Only the end."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.run_id = ""
        self.began = time.monotonic()

    def begin(self, run_id: RunId) -> None:
        self.run_id = run_id

    def observe(self, records: Sequence[EventRecord]) -> None:
        pass

    def close(self) -> None:
        pass

    def end(self, ended: RunEnded) -> None:
        took = f"{time.monotonic() - self.began:.1f} s"
        word = ended.event_type.removeprefix("Run").lower()
        reason = f": {visible(ended.error)}" if ended.error else f" ({ended.reason})" if ended.reason else ""
        click.echo(f"{word} after {took}{reason}")
        folder = self.runs / ended.run_id
        click.echo(f"see {folder}/ for state.json, logs/ and artifacts/")
        if ended.exit_code:
            click.echo(f"next: podium logs {ended.run_id}   or: podium resume {ended.run_id}")


class Lines(Quiet):
    """One line for each thing that happens."""

    def __init__(self, runs: Path, *, stream: bool) -> None:
        super().__init__(runs)
        self._stream = stream

    def begin(self, run_id: RunId) -> None:
        super().begin(run_id)
        click.echo(f"run {run_id}")

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            line = line_of(record)
            if line is not None:
                click.echo(f"{record.emitted_at[11:19]} {line}")
            if record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED):
                self._show_output(record)

    def _show_output(self, record: EventRecord) -> None:
        failed = record.event_type == EventType.STEP_FAILED
        if not (failed or self._stream) or record.step_id is None:
            return
        directory = RunDirectory(self.runs, record.run.run_id)
        for kind in ("out", "err"):
            text = tail_of(directory.step_file(record.step_id, record.logical_attempt_id, kind))
            lines = text.rstrip("\n").splitlines()
            for line in lines if self._stream else lines[-10:]:
                click.echo(f"         {visible(record.step_id)} | {visible(line)}")


class JsonLines:
    """Every event, as it stands in the log."""

    def begin(self, run_id: RunId) -> None:
        pass

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            click.echo(encode_envelope(record).decode())

    def close(self) -> None:
        pass

    def end(self, ended: RunEnded) -> None:
        pass


def line_of(record: EventRecord) -> str | None:
    """An event as a line; None for what says nothing to people."""
    payload: dict[str, Any] = msgspec.json.decode(record.payload)
    error = payload.get("error") or {}
    step = visible(record.step_id or "")
    again = f" (attempt {record.logical_attempt_id})" if record.logical_attempt_id > 1 else ""
    match record.event_type:
        case EventType.STEP_STARTED:
            if "approval" in payload:
                return f"?  {step}: {visible(payload['approval']['message'])} (podium approve {record.run.run_id})"
            return f">  {step}{again}"
        case EventType.STEP_COMPLETED:
            took = payload.get("durationMs")
            return f"ok {step}{again}" + (f" {took / 1000:.1f} s" if took is not None else "")
        case EventType.STEP_FAILED:
            message = visible(str(error.get("message") or error.get("code") or ""))
            return f"x  {step}{again}: {message}"
        case EventType.STEP_SKIPPED:
            return f"-  {step} skipped: {visible(str(payload.get('reason', '')))}"
        case EventType.STEP_RETRY_SCHEDULED:
            return f"~  {step} is tried again at {str(payload.get('due'))[11:19]}"
        case EventType.RUN_PAUSED:
            return "paused"
        case EventType.RUN_RESUMED:
            return "goes on"
        case _:
            return None
