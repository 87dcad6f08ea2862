"""A run in the foreground: driven by this process, shown while it runs, cancelled by Ctrl-C; and its exit
code.
"""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

import click
from msgspec.structs import replace

from podium.cli.app import FAILED, importing
from podium.cli.engine_options import chosen_engine
from podium.cli.env_files import env_file_of_run_option
from podium.cli.hints import given_runs, print_causes, print_notice, print_reason, say
from podium.cli.interrupts import interruptible
from podium.cli.output import print_diagnostics, surviving, surviving_lost_output
from podium.cli.paths import GivenPath
from podium.cli.progress import JsonLines, ProgressView, Quiet, progress_view, shows_table
from podium.cli.reading import read_file
from podium.cli.storing import store_option, tenant_option
from podium.language.workflow import WorkflowReading
from podium.log.engines import LOCAL
from podium.log.ids import RunId
from podium.log.notes import RunNotes
from podium.operations.drive import OnDriving, ReadyRun, Watch, drive
from podium.operations.parts import Parts
from podium.operations.persons_turn import PersonsTurn
from podium.operations.reopened import Reopened
from podium.operations.start import start_run
from podium.operations.workflows import load_workflow
from podium.permissions import changeable_by_others, readable_by_others
from podium.plan.plan import Plan
from podium.ports.engine import LEFT, Notice, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.runtime.checkpoints import notes_of
from podium.text import visible
from podium.wiring.agents import installed_providers, recordings_in
from podium.wiring.stores import open_store, runs_folder, store_url, use_configured_permissions
from podium.wiring.use_cases import use_case_parts

if TYPE_CHECKING:
    from podium.machine.progress import Progress
    from podium.operations.explaining import Reason
    from podium.operations.reports import RunReport

_MAX_LOOKED_AT: Final = 50


class Options(TypedDict):
    """Options of every command that drives a run."""

    as_json: bool
    quiet: bool
    stream: bool
    plain: bool
    record: Path | None
    replay: Path | None
    no_wait: bool
    env_files: tuple[Path, ...]
    store: str | None
    tenant: str


signature_option = click.option(
    "--signature", metavar="FILE", help="The signatures of the plan, as `podium sign` writes them."
)


def foreground_options(command: Callable[..., int]) -> Callable[..., int]:
    folder = GivenPath(file_okay=False)
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line."),
        click.option("--quiet", "-q", is_flag=True, help="Print only how it ended."),
        click.option("--stream", is_flag=True, help="Show what steps print, as they print it."),
        click.option(
            "--plain",
            is_flag=True,
            help="One line for each thing that happens, also at a terminal; for screen readers.",
        ),
        click.option(
            "--record",
            type=folder,
            metavar="DIR",
            help="Keep what agents are asked and answer, to be replayed.",
        ),
        click.option(
            "--replay",
            type=folder,
            metavar="DIR",
            help="Answer agent steps from this recording; no agent is called.",
        ),
        click.option(
            "--no-wait",
            is_flag=True,
            help="Leave the run (exit code 5) when only a person can make progress.",
        ),
        env_file_of_run_option,
        store_option,
        tenant_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_signatures(file: str) -> bytes:
    from podium.access.signatures import MAX_BYTES

    return read_file(file, MAX_BYTES)[1]


def read_workflow(content: bytes, name: str, workspace: Path | None = None) -> WorkflowReading:
    """A workflow with the contents of its file besides the plan. Prints its problems."""
    reading = load_workflow(
        content, name, workspace=workspace, missing_is_error=True, installed_providers=installed_providers
    )
    print_diagnostics(reading.diagnostics, reading.omitted)
    return reading


def compiled_workflow(content: bytes, name: str, workspace: Path | None = None) -> Plan | None:
    """The plan alone: for runs that other processes execute, or that have their variables already."""
    reading = read_workflow(content, name, workspace)
    if reading.plan is not None and reading.env_files:
        print_notice("warning: 'env_file' is not part of the plan and is not read here")
    return reading.plan


class Foreground:
    """One command that drives a run. `continues`: an existing recording is continued. `existing`: names an
    existing run, by an id or a name for `resolve_run`; `run_id` is its id when the work starts.
    `on_its_engine`: it is driven.
    """

    def __init__(
        self,
        options: Options,
        *,
        plan: Plan | None = None,
        continues: bool = True,
        existing: str | None = None,
        on_its_engine: bool = True,
    ) -> None:
        self._existing = existing
        self._on_its_engine = on_its_engine
        self.run_id = RunId("")
        self._tenant = options["tenant"]
        record, replay = options["record"], options["replay"]
        if record is not None and replay is not None:
            raise click.UsageError("--record calls agents and --replay calls none: give one of them.")
        if (record is not None or replay is not None) and chosen_engine().engine != LOCAL:
            raise click.UsageError("--record and --replay are for --engine local.")
        if options["env_files"] and chosen_engine().engine != LOCAL:
            raise click.UsageError(
                "--env-file is for --engine local: on Temporal, steps get the environment of their worker; start it "
                "with `podium worker --env-file`."
            )
        use_configured_permissions()  # before the folder is created
        self._recordings = recordings_in(record, replay, continues=continues)
        self._folder = runs_folder(given_runs())
        self._store = store_url(options["store"], self._folder)
        self._no_wait = options["no_wait"]
        # Set for a run that was left: workers of this pool continue it.
        self._pool: str | None = None
        self._view: ProgressView = progress_view(
            plan,
            self._folder,
            as_json=options["as_json"],
            quiet=options["quiet"],
            stream=options["stream"],
            plain=options["plain"],
        )
        self._reopened = Reopened()
        # For the table at the end.
        self._report: RunReport | None = None
        # Explanations of the run's end, to be printed after it.
        self._reasons: Sequence[Reason] = ()

    def finish(self, work: Callable[[Parts], Awaitable[RunEnded]], *, create: bool = False) -> int:
        """Do the work, which ends in `start` or `drive`; show the end, and exit with the run's code."""
        _warn_of_readers(self._folder)
        try:
            ended = asyncio.run(self._work(work, create=create))
        finally:
            with surviving_lost_output():
                self._view.close()
        with surviving_lost_output():
            self._print_end(ended)
            sys.stdout.flush()
        return self._exit_code(ended)

    async def start(self, parts: Parts, request: RunRequest) -> RunEnded:
        """A new run. Signals are handled from now on: one that arrives before the run is created cancels it
        then.
        """
        with interruptible(hangup=_ends_with_terminal()) as on_driving:
            ready = await start_run(parts, request, notify=self._notify)
            return await self._drive(parts, ready, lambda: contextlib.nullcontext(on_driving))

    async def drive(self, parts: Parts, ready: ReadyRun) -> RunEnded:
        """An existing run."""
        interrupts = partial(interruptible, immediately=False, hangup=_ends_with_terminal())
        return await self._drive(parts, ready, interrupts, is_new=False)

    async def _work(self, work: Callable[[Parts], Awaitable[RunEnded]], *, create: bool) -> RunEnded:
        with importing():
            opened = await open_store(self._store, create=create)
        following = asyncio.create_task(self._view.follow())
        try:
            parts = use_case_parts(opened, self._folder, print_notice, recordings=self._recordings)
            if self._existing is not None:
                from podium.operations.run_names import resolve_run

                self.run_id = await resolve_run(parts, self._tenant, self._existing)
            parts = await self._on_engine(parts, opened)
            with importing():
                parts.engine()  # imported now: decisions must be valid when the run is driven
            ended = await work(parts)
            self._reasons = await self._explain(parts, ended)
            if ended.event_type != LEFT and shows_table(self._view):
                from podium.operations.reports import report_run

                self._report = await report_run(parts, self._tenant, ended.run_id)
            return ended
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError), surviving_lost_output():
                await following
            await opened.close()

    async def _on_engine(self, parts: Parts, opened: Store) -> Parts:
        """Use an engine other than the local one: the one that was chosen, or the one that has the run."""
        from podium.wiring.server_engines import connection_of, server_engine

        choice = chosen_engine()
        connection = choice.connection if choice.engine != LOCAL else None
        if connection is None and self.run_id and self._on_its_engine:
            run = await parts.store.runs.find(self._tenant, self.run_id)
            connection = connection_of(run, choice.secret_of(run.provider))
        if connection is None:
            return parts
        if self._recordings is not None:
            raise click.UsageError("--record and --replay are for --engine local.")
        engine = partial(
            server_engine, opened, self._folder, self._store, connection, shared_runs=choice.shared_runs
        )
        return replace(parts, engine=cache(engine))

    async def _drive(
        self,
        parts: Parts,
        ready: ReadyRun,
        interrupts: Callable[[], contextlib.AbstractContextManager[OnDriving | None]],
        *,
        is_new: bool = True,
    ) -> RunEnded:
        with surviving_lost_output():  # a closed pipe does not prevent a run from starting
            self._view.begin(ready.run_id)
        turn = PersonsTurn(ready.run_id, self._view.waits)
        notes = RunNotes() if is_new else await notes_of(parts.store, ready.run_id)
        turn.recall(notes)
        self._view.recall(notes)
        observers: list[Observer] = [surviving(self._view.observe), turn.observe]
        if ready.reopen is not None:
            observers.append(self._reopened.observe)
        observers += await self._questions(parts, ready.run_id, turn, notes)

        def on_waiting(progress: "Progress") -> None:
            self._view.progress(progress)
            turn.owed(progress)

        watch = Watch(observers, on_waiting, interrupts, self._no_wait, self._notify)
        return await drive(parts, ready, watch)

    async def _questions(
        self, parts: Parts, run_id: RunId, turn: PersonsTurn, notes: RunNotes
    ) -> list[Observer]:
        """Ask for approvals at the terminal, if there is one."""
        is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        if self._no_wait or not isinstance(self._view, Quiet) or not is_terminal:
            return []
        from podium.cli.asking import Questions
        from podium.operations.signals import signal_run

        run = await parts.store.get_run(run_id)
        questions = Questions(
            partial(signal_run, parts), await parts.plan_of(run), self._view.typed, self._view.ask
        )
        turn.on_doubt = partial(questions.doubt, run.identity)
        questions.recall(run.identity, notes)
        return [questions.observe]

    def _notify(self, notice: Notice) -> None:
        with surviving_lost_output():
            self._view.notice(notice)

    async def _explain(self, parts: Parts, ended: RunEnded) -> "Sequence[Reason]":
        """What a run that was left waits for; or why one that was reopened ended immediately."""
        if ended.event_type != LEFT:
            return await self._reopened.reasons(parts, ended.run_id)
        from podium.operations.explaining import explain_run

        run = await parts.store.get_run(ended.run_id)
        self._pool = run.pool
        plan, values = await parts.plan_of(run), parts.values(ended.run_id)
        return (await explain_run(parts.store, run, plan, parts.clock.now(), values)).reasons

    def _print_end(self, ended: RunEnded) -> None:
        # Programs that read events get nothing else.
        err = isinstance(self._view, JsonLines)
        if ended.event_type == LEFT:
            click.echo(f"detached from run {ended.run_id}, which is {ended.reason}:", err=err)
            for reason in self._reasons:
                print_reason(reason, err=err)
            say(self._next_step(ended.run_id), err=err)
            return
        if self._report is not None:
            from podium.cli.summary import print_summary

            print_summary(self._report, self._folder)
        self._view.end(ended)
        if self._reasons:
            click.echo("the run ended again immediately; no step ran:", err=err)
            print_causes(self._reasons, ended.run_id, err=err)

    def _next_step(self, run_id: str) -> str:
        if self._pool is None:
            return f"then continue: `podium resume {run_id}`"
        return f"hosts of pool {self._pool} continue it; follow it with `podium events {run_id} --follow`"

    def _exit_code(self, ended: RunEnded) -> int:
        """The exit code always reports how the run ended, whatever could be printed."""
        if self._recordings is not None and self._recordings.misses:
            # Even if the workflow handled it: a test of it must not mistake this for a success.
            steps = ", ".join(visible(repr(step)) for step in self._recordings.misses)
            click.echo(f"REPLAY_MISS: the recording has no answer for {steps}", err=True)
            return ended.exit_code or FAILED
        return ended.exit_code


def _ends_with_terminal() -> bool:
    """A run that workers execute does not need this process."""
    return chosen_engine().engine == LOCAL


def _warn_of_readers(folder: Path) -> None:
    """Warn if other users can replace the runs of this folder, and of files of them that other users can read;
    one warning is enough, since one command fixes all.
    """
    if changeable_by_others(folder):
        click.echo(
            f"warning: other users can replace what is in {visible(str(folder))}; use a folder that belongs to you and "
            "that not everyone can write to",
            err=True,
        )
    kept = itertools.islice(folder.iterdir(), _MAX_LOOKED_AT) if folder.is_dir() else ()
    found = readable_by_others((folder / "podium.db", *kept))
    if found is not None:
        from shlex import quote

        click.echo(
            f"warning: other users can read {visible(str(found))}: `chmod -R go-rwx {quote(str(folder))}` makes it "
            "private; `permissions: umask` in the configuration file leaves it to you",
            err=True,
        )
