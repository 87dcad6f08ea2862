"""`podium run --server`: publish the workflow, start a run of it, and show its progress."""

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click
from click.core import ParameterSource

from podium.cli.app import INVALID_FILE
from podium.cli.engine_options import chosen_engine
from podium.cli.foreground import Options
from podium.cli.hints import print_reason, say
from podium.cli.output import print_diagnostics
from podium.cli.progress import JsonLines, Lines, ProgressView, Quiet
from podium.cli.reading import read_file
from podium.cli.remote_events import identity_of, record_of
from podium.cli.servers import client_of, readable
from podium.client import Client, ServerError, printed_calls
from podium.log.engines import LOCAL
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import StepStarted, payload_of
from podium.log.transitions import RUN_ENDS, STEP_ENDS
from podium.machine.obligations import FOR_A_PERSON
from podium.operations.explaining import Reason
from podium.operations.inputs import parse_inputs
from podium.operations.why import why_of
from podium.operations.workflows import load_workflow
from podium.plan.plan import Plan
from podium.ports.engine import LEFT, RESUMABLE, RunEnded
from podium.runtime.ends import ended_by
from podium.text import visible

_LINES_OF_FAILURE: Final = 10
# A second one also stops `finally`; a third leaves the run to its worker.
_MAX_CANCELS: Final = 2
# Options about the machine that drives a run, or that the server decides.
_NOT_FOR_SERVERS: Final = {
    "run_id": "--run-id",
    "workspace": "--workspace",
    "needs_approval": "--needs-approval",
    "dry_run": "--dry-run",
    "signature": "--signature",
    "record": "--record",
    "replay": "--replay",
    "env_files": "--env-file",
}


class RemoteOrder(NamedTuple):
    """What to run: the workflow `file`, or a plan that is published on the server."""

    file: str | None
    plan_ref: str | None
    inputs: Sequence[str]
    inputs_of_file: Mapping[str, Any]
    pool: str | None
    labels: Mapping[str, str]


def run_on_server(server: str, order: RemoteOrder, options: Options) -> int:
    _refuse_options()
    if (order.file is None) == (order.plan_ref is None):
        raise click.UsageError("give a workflow FILE, or a plan of the server with --plan ID@VERSION.")
    content, plan = b"", None
    if order.file is not None:
        content, plan = _compiled(order.file)
        if plan is None:
            return INVALID_FILE
    declared = plan.workflow.inputs if plan is not None else None
    inputs = {**order.inputs_of_file, **parse_inputs(order.inputs, declared or {})}
    with client_of(server) as client:
        ref = order.plan_ref or client.publish(content.decode()).ref
        started = client.start(ref, inputs, labels=order.labels or None, pool=order.pool)
        return readable(lambda: _Watching(client, started.run_id, options).until_end())


def _refuse_options() -> None:
    context = click.get_current_context()
    for name, option in _NOT_FOR_SERVERS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is for runs of this machine: leave it out with --server.")
    if chosen_engine().engine != LOCAL:
        raise click.UsageError("--engine is for runs of this machine: leave it out with --server.")


def _compiled(file: str) -> tuple[bytes, Plan | None]:
    """Files that it names are on the worker: only its text is checked here."""
    name, content = read_file(file)
    reading = load_workflow(content, name)
    print_diagnostics(reading.diagnostics, reading.omitted)
    return content, reading.plan


class _Watching:
    """Follows one run to its end."""

    def __init__(self, client: Client, run_id: str, options: Options) -> None:
        self._client = client
        self._run_id = RunId(run_id)
        self._no_wait = options["no_wait"]
        self._view = _view_of(client, options)
        self._seen = 0
        self._reasons: tuple[Reason, ...] = ()
        self._cancels = 0

    def until_end(self) -> int:
        self._view.begin(self._run_id)
        with _terminated_as_interrupted():
            ended = self._followed()
        self._print_end(ended)
        sys.stdout.flush()
        return ended.exit_code

    def _followed(self) -> RunEnded:
        while True:
            try:
                return self._follow()
            except KeyboardInterrupt:
                if self._cancels == _MAX_CANCELS:
                    return RunEnded(self._run_id, LEFT, RESUMABLE, "to its worker", "")
                self._cancel()

    def _cancel(self) -> None:
        self._cancels += 1
        with suppress(ServerError):  # it has ended: its last event says how
            self._client.cancel(self._run_id, "interrupted")

    def _follow(self) -> RunEnded:
        end: EventRecord | None = None
        identity = identity_of(self._client, self._run_id)
        for event in self._client.follow(self._run_id, self._seen):
            record = record_of(event, identity)
            self._seen = record.run_seq
            self._view.observe([record])
            end = record if record.event_type in RUN_ENDS else end
            if self._may_wait(record) and self._is_left():
                return RunEnded(self._run_id, LEFT, RESUMABLE, "waiting", "")
        assert end is not None
        return ended_by(end)

    def _may_wait(self, record: EventRecord) -> bool:
        """Whether what the run needs from a person may have changed."""
        if record.event_type == EventType.STEP_STARTED:
            return b'"approval"' in record.payload and payload_of(record, StepStarted).approval is not None
        if record.event_type in (EventType.STEP_FAILED, EventType.STEP_INTERRUPTED, EventType.RUN_PAUSED):
            return True
        return record.event_type in STEP_ENDS and bool(self._reasons)

    def _is_left(self) -> bool:
        """Show what the run waits for; returns whether that is all, and this command does not wait for it."""
        printed = self._client.ask(printed_calls.why(self._run_id))
        why = why_of(printed)
        self._reasons = tuple(one for one in why.reasons if one.kind in FOR_A_PERSON)
        self._view.waits(self._reasons)
        return self._no_wait and bool(self._reasons) and len(self._reasons) == len(why.reasons)

    def _print_end(self, ended: RunEnded) -> None:
        if ended.event_type != LEFT:
            self._view.end(ended)
            return
        # Programs that read events get nothing else.
        err = isinstance(self._view, JsonLines)
        click.echo(f"run {ended.run_id} is left {ended.reason}:", err=err)
        for reason in self._reasons:
            print_reason(reason, err=err)
        say(f"follow it with `podium events {ended.run_id} --follow`", err=err)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM cancels the run, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _view_of(client: Client, options: Options) -> ProgressView:
    if options["as_json"]:
        return JsonLines()
    return _RemoteQuiet(Path()) if options["quiet"] else _RemoteLines(client, stream=options["stream"])


def _say_where(ended: RunEnded) -> None:
    say(f"see `podium runs show {ended.run_id}` and `podium logs {ended.run_id}`")


class _RemoteQuiet(Quiet):
    def say_where(self, ended: RunEnded) -> None:
        _say_where(ended)

    def say_next(self, ended: RunEnded) -> None:
        pass  # its location was printed


class _RemoteLines(Lines):
    """The output of steps is on the server: with --stream it is shown when a step has ended, otherwise only
    the end for failures.
    """

    def __init__(self, client: Client, *, stream: bool) -> None:
        super().__init__(Path(), stream=False)
        self._client = client
        self._all = stream

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if self._all and record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED):
                self._show(record, None)
        super().observe(records)

    def _show_end(self, record: EventRecord) -> None:
        if not self._all:
            self._show(record, _LINES_OF_FAILURE)

    def _show(self, record: EventRecord, last: int | None) -> None:
        stream: Literal["out", "err"]
        for stream in ("out", "err"):
            lines = self._log(record, stream)
            for line in lines if last is None else lines[-last:]:
                click.echo(f"         {visible(record.step_id or '')} | {visible(line)}")

    def _log(self, record: EventRecord, stream: Literal["out", "err"]) -> list[str]:
        try:
            step, attempt = record.step_id or "", record.logical_attempt_id
            content = self._client.log(record.run.run_id, step, attempt, stream)
        except ServerError:
            return []  # it wrote nothing
        return content.decode("utf-8", "replace").splitlines()

    def say_where(self, ended: RunEnded) -> None:
        _say_where(ended)

    def say_next(self, ended: RunEnded) -> None:
        pass  # its location was printed
