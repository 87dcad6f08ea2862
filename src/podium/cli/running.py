"""`podium run` and `podium resume`: drive a run in this process, and show how it goes."""

import asyncio
import contextlib
import itertools
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from podium.cli.app import FAILED, INVALID_FILE
from podium.cli.env_files import env_file_option, require_env_files, use_env_files
from podium.cli.output import print_diagnostics
from podium.cli.output_lost import surviving, surviving_lost_output
from podium.cli.paths import GivenPath
from podium.cli.places import given_runs, say
from podium.cli.progress import JsonLines, Lines, ProgressView, Quiet, progress_view
from podium.cli.reading import read_file
from podium.cli.reopened import Reopened
from podium.cli.storing import store_option
from podium.cli.waiting import PersonsTurn
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.notes import RunNotes
from podium.log.runs import Run
from podium.log.transitions import TERMINAL, RunStatus
from podium.operations.env_files import kept_facts
from podium.operations.inputs import check_inputs, parse_inputs
from podium.operations.workflows import load_workflow, looks_like_contract
from podium.permissions import readable_by_others
from podium.plan.plan import Plan
from podium.ports.engine import LEFT, Driving, Engine, Notice, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.runtime.checkpoints import notes_of
from podium.runtime.ends import last_end
from podium.runtime.plan_file import load_plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import values_of
from podium.runtime.workspaces import check_workspace, move_workspace, workspace_of
from podium.text import visible
from podium.wiring import (
    check_run,
    installed_providers,
    local_engine,
    open_store,
    payload_store,
    recordings_in,
    runs_folder,
    store_url,
    system_clock,
    use_configured_permissions,
)

if TYPE_CHECKING:
    from podium.operations.explaining import Reason
    from podium.runtime.tasks.recordings import Recordings

_MAX_LOOKED_AT = 50
_NO_WAIT = click.option(
    "--no-wait", is_flag=True, help="Leave the run (exit code 5) when only a person can let it go on."
)


def _recording_options(command: Callable[..., int]) -> Callable[..., int]:
    folder = GivenPath(file_okay=False)
    record = click.option(
        "--record", type=folder, metavar="DIR", help="Keep what agents are asked and answer, to be replayed."
    )
    replay = click.option(
        "--replay",
        type=folder,
        metavar="DIR",
        help="Answer agent steps from this recording; no agent is called.",
    )
    return record(replay(command))


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the workflow; repeat it for more.",
)
@click.option("--input-file", type=GivenPath(dir_okay=False), help="A YAML or JSON file with inputs.")
@click.option("--run-id", help="The id of the run. [default: a new one]")
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False, exists=True),
    help="Where commands run. [default: here]",
)
@env_file_option
@click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
@click.option("--stream", is_flag=True, help="Show what steps print, as they print it.")
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, run nothing.")
@_recording_options
@_NO_WAIT
@store_option
def run(
    file: str,
    inputs: tuple[str, ...],
    input_file: Path | None,
    run_id: str | None,
    workspace: Path | None,
    env_files: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
    stream: bool,
    dry_run: bool,
    record: Path | None,
    replay: Path | None,
    no_wait: bool,
    store: str | None,
) -> int:
    """Run the workflow FILE ('-' is standard input) and wait for its end.

    The run is kept in runs/<run id>: state.json, logs, artifacts. Press Ctrl-C once to cancel it, twice to kill it.

    Exit codes: 0 success, 1 failed, 2 cancelled, 3 timed out, 4 no transition, 5 left waiting (--no-wait) or out of
    budget, 64 wrong usage, 65 invalid workflow, 75 the run is driven by another process, 78 a key, program or
    package that the workflow needs is missing (checked before anything is created).

    \b
    Examples:
      podium run examples/test_fix_loop.yaml
      podium run release.yaml --input version=1.4.0 --stream
      podium run examples/review_loop.yaml --replay examples/recordings/review_loop
    """
    name, content = read_file(file)
    if looks_like_contract(content, name):
        say(
            f"'{visible(name)}' is a node contract, not a workflow; check it with `podium contract validate "
            f"{_quoted(name)}`",
            err=True,
        )
        return INVALID_FILE
    reading = load_workflow(
        content, name, workspace=workspace, missing_is_error=True, installed_providers=installed_providers
    )
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    plan = reading.plan
    given = check_inputs(
        {**_read_inputs(input_file), **parse_inputs(inputs, plan.workflow.inputs)}, plan.workflow
    )
    variables = use_env_files(env_files)
    if dry_run:
        return _show_plan(file, plan, workspace, replays=replay is not None)
    request = RunRequest(
        plan,
        given,
        run_id,
        content,
        workspace if workspace is not None else Path.cwd(),
        env_files=kept_facts(variables),
    )
    # Before the store is opened: it might be made for this run.
    _require_needs(plan, request.workspace, replays=replay is not None)
    recordings = _recordings(record, replay, goes_on=False)
    folder = runs_folder(given_runs())
    view = progress_view(plan, folder, as_json=as_json, quiet=quiet, stream=stream)

    async def work(engine: Engine, opened: Store) -> RunEnded:
        return await _drive_new(engine, opened, view, request, no_wait=no_wait)

    return _finish(folder, store, work, view, recordings=recordings)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
@click.option("--stream", is_flag=True, help="Show what steps print, as they print it.")
@click.option(
    "--workflow", metavar="FILE", help="Continue with this workflow instead of the one the run started with."
)
@click.option("--force", is_flag=True, help="With --workflow: also if its structure is another.")
@click.option("--changed", is_flag=True, help="Start a new run and repeat only what has changed since.")
@click.option("--run-id", "new_id", help="With --changed: the id of the new run. [default: a new one]")
@_recording_options
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="KEY=AMOUNT",
    help="Raise the budget first: usd=5, tokens=100000, STEP.usd=2 for a step's own.",
)
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False, exists=True),
    help="Where commands run from now on, if the folder was moved.",
)
@_NO_WAIT
@env_file_option
@store_option
def resume(
    run_id: str,
    workspace: Path | None,
    env_files: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
    stream: bool,
    workflow: str | None,
    force: bool,
    changed: bool,
    new_id: str | None,
    record: Path | None,
    replay: Path | None,
    budgets: tuple[str, ...],
    no_wait: bool,
    store: str | None,
) -> int:
    """Go on with a run that was interrupted, paused, cancelled, has failed, or is out of budget.

    What has been done is not done again; what was under way when it stopped is. A completed run is never taken up.
    A loop, block or call that failed is continued: of its steps, what failed, was stopped or never started runs.
    A paused run that another process drives continues there: it is shown here, and its exit code is this command's.

    With --workflow, commands, prompts, limits, retries and budgets may be others than before; the steps and what leads
    from one to another may not. With --changed a new run takes over every step that has completed and would be carried
    out with the same command, inputs and files, and says for each why, or why not.
    """
    raised = _raised(budgets)
    if raised is not None and changed:
        raise click.UsageError(
            "--budget is for a run that continues: a new run has the budget of its workflow."
        )
    if force and workflow is None:
        raise click.UsageError("--force is for --workflow: name the file to go on with.")
    if new_id is not None and not changed:
        raise click.UsageError("--run-id is for --changed: a run that continues keeps its id.")
    other: tuple[Plan, bytes] | None = None
    if workflow is not None:
        name, content = read_file(workflow)
        reading = load_workflow(content, name, missing_is_error=True, installed_providers=installed_providers)
        print_diagnostics(reading.diagnostics, reading.omitted)
        if reading.plan is None:
            return INVALID_FILE
        other = (reading.plan, content)
    recordings = _recordings(record, replay, goes_on=True)
    folder = runs_folder(given_runs())
    view = progress_view(None, folder, as_json=as_json, quiet=quiet, stream=stream)
    reopened = Reopened(folder)

    async def work(engine: Engine, opened: Store) -> RunEnded:
        from podium.cli.following import drive_or_follow
        from podium.cli.restoring import directory_of
        from podium.operations.pausing import is_paused
        from podium.operations.signals import RunIsOver, check_may_drive, send_signal

        known = await opened.get_run(RunId(run_id))
        await check_may_drive(opened, system_clock(), known)
        variables = use_env_files(env_files)
        await directory_of(opened, folder, known)
        await require_env_files(opened, folder, known, variables, f"podium resume {run_id}")
        if changed:
            from podium.operations.rerunning import carry_files_over, changed_request

            plan, source = other if other is not None else (None, None)
            request = await changed_request(
                opened, folder, RunId(run_id), new_id, plan=plan, source=source, payloads=payload_store
            )
            request = replace(request, env_files=kept_facts(variables))
            _require_needs(request.plan, request.workspace, replays=replay is not None)
            carry_over = partial(carry_files_over, folder, RunId(run_id))
            return await _drive_new(engine, opened, view, request, carry_over, no_wait=no_wait)
        plan_to_drive = other[0] if other is not None else None
        await _require_needs_again(
            opened, folder, known, plan_to_drive, workspace, replays=replay is not None
        )
        if other is not None:
            from podium.operations.structure import replace_workflow

            told = await replace_workflow(
                opened,
                folder,
                RunId(run_id),
                *other,
                system_clock().now(),
                force=force,
                payloads=payload_store,
            )
            if told:
                update = {"params": told, "reason": "podium resume --workflow"}
                await send_signal(
                    opened, system_clock(), known.identity.tenant_id, run_id, "UPDATE_PARAMS", update
                )
        if raised is not None:
            await _raise_budget(opened, folder, known, raised)
        if workspace is not None:
            move_workspace(RunDirectory(folder, run_id), workspace)
        # What is done is decided by what the run is now, whatever becomes of it until it is this process's turn.
        end = await last_end(opened, known)
        _begin(view, RunId(run_id))
        drive = partial(
            _drive_again,
            engine,
            opened,
            view,
            RunId(run_id),
            end.run_seq if end is not None else None,
            no_wait,
            watch=(reopened.observe,) if end is not None else (),
        )
        if not await is_paused(opened, known):
            return await drive()
        with contextlib.suppress(RunIsOver):
            await send_signal(opened, system_clock(), known.identity.tenant_id, run_id, "RESUME", {})
        return await drive_or_follow(opened, folder, known, view, partial(drive, lock_wait=0.0))

    return _finish(folder, store, work, view, create=False, recordings=recordings, explain=reopened.reasons)


async def _drive_again(
    engine: Engine,
    store: Store,
    view: ProgressView,
    run_id: RunId,
    reopen: int | None,
    no_wait: bool,
    *,
    lock_wait: float | None = None,
    watch: Sequence[Observer] = (),
) -> RunEnded:
    # Who waits for another process to give a run up is simply interrupted: nothing is to be cancelled yet.
    turn = PersonsTurn(view, run_id)
    notes = await notes_of(store, run_id)
    turn.recall(notes)
    with interruptible(at_once=False) as on_driving:
        return await engine.drive(
            run_id,
            observers=[
                *await _observers(view, store, run_id, turn, notes, ask=not no_wait),
                turn.observe,
                *watch,
            ],
            on_waiting=turn.owed,
            on_driving=on_driving,
            reopen=reopen,
            no_wait=no_wait,
            lock_wait=lock_wait,
            notify=_notifier(view),
        )


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--from", "step", metavar="STEP", help="Where to start: a step that the run reached. [default: the start]"
)
@click.option("--run-id", "new_id", help="The id of the new run. [default: a new one]")
@click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
@click.option("--stream", is_flag=True, help="Show what steps print, as they print it.")
@_NO_WAIT
@_recording_options
@env_file_option
@store_option
def rerun(
    run_id: str,
    step: str | None,
    env_files: tuple[Path, ...],
    new_id: str | None,
    as_json: bool,
    quiet: bool,
    stream: bool,
    no_wait: bool,
    record: Path | None,
    replay: Path | None,
    store: str | None,
) -> int:
    """Run what was run before once more, from STEP or from its start on, as a new run.

    Results and files of the steps before it are taken over and not made again, and so are those of steps that completed
    beside it: in other branches, in other items of a parallel loop, or in a graph without depending on it. The earlier
    run stays as it is.
    """
    from podium.operations.rerunning import carry_files_over, rerun_request

    recordings = _recordings(record, replay, goes_on=True)
    folder = runs_folder(given_runs())
    view = progress_view(None, folder, as_json=as_json, quiet=quiet, stream=stream)

    async def work(engine: Engine, opened: Store) -> RunEnded:
        variables = use_env_files(env_files)
        command = f"podium rerun {run_id}" + (f" --from {_quoted(step)}" if step is not None else "")
        await require_env_files(opened, folder, await opened.get_run(RunId(run_id)), variables, command)
        request = await rerun_request(opened, folder, RunId(run_id), step, new_id, payloads=payload_store)
        request = replace(request, env_files=kept_facts(variables))
        _require_needs(request.plan, request.workspace, replays=replay is not None)
        carry_over = partial(carry_files_over, folder, RunId(run_id))
        return await _drive_new(engine, opened, view, request, carry_over, no_wait=no_wait)

    return _finish(folder, store, work, view, create=False, recordings=recordings)


async def _drive_new(
    engine: Engine,
    store: Store,
    view: ProgressView,
    request: RunRequest,
    carry_over: Callable[[RunId], None] = lambda _run: None,
    *,
    no_wait: bool = False,
) -> RunEnded:
    """`carry_over`: what a run begins with that another one has left."""
    with interruptible() as on_driving:
        created = await engine.create(request, notify=_notifier(view))
        carry_over(created)
        _begin(view, created)
        turn = PersonsTurn(view, created)
        return await engine.drive(
            created,
            observers=[*await _observers(view, store, created, turn, ask=not no_wait), turn.observe],
            on_waiting=turn.owed,
            on_driving=on_driving,
            no_wait=no_wait,
            notify=_notifier(view),
        )


def _finish(
    folder: Path,
    store: str | None,
    work: Callable[[Engine, Store], Awaitable[RunEnded]],
    view: ProgressView,
    *,
    create: bool = True,
    recordings: "Recordings | None" = None,
    explain: "Callable[[Store, RunEnded], Awaitable[Sequence[Reason]]] | None" = None,
) -> int:
    """Drive, show the end and what `explain` has to say about it, and exit as the run did."""

    use_configured_permissions()
    _warn_of_readers(folder)
    waits_for: Sequence[Reason] = ()
    explained: Sequence[Reason] = ()

    async def driven() -> RunEnded:
        nonlocal waits_for, explained
        opened = await open_store(store_url(store, folder), create=create)
        following = asyncio.create_task(view.follow())
        try:
            ended = await work(local_engine(opened, system_clock(), folder, recordings=recordings), opened)
            if ended.event_type == LEFT:
                waits_for = await _what_it_waits_for(opened, folder, ended.run_id)
            elif explain is not None:
                explained = await explain(opened, ended)
            return ended
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError), surviving_lost_output():
                await following
            await opened.close()

    try:
        ended = asyncio.run(driven())
    finally:
        with surviving_lost_output():
            view.close()
    with surviving_lost_output():
        if ended.event_type == LEFT:
            # Programs that read events get them and nothing else.
            _tell_left(ended, waits_for, err=isinstance(view, JsonLines))
        else:
            view.end(ended)
            _tell_nothing_ran(explained, err=isinstance(view, JsonLines))
        sys.stdout.flush()
    # How the run ended is told by the exit code, whatever could be printed.
    code = ended.exit_code
    if recordings is not None and recordings.misses:
        # Also if the workflow got over it: whoever tests it must not take this for a success.
        steps = ", ".join(visible(repr(step)) for step in recordings.misses)
        click.echo(f"REPLAY_MISS: the recording has no answer for {steps}", err=True)
        return code or FAILED
    return code


def _quoted(word: str) -> str:
    """For a shell; loaded with the first hint that needs it."""
    from shlex import quote

    return quote(word)


def _warn_of_readers(folder: Path) -> None:
    """What other users can read of the runs kept here; one line is enough, since one command closes all of it."""
    kept = itertools.islice(folder.iterdir(), _MAX_LOOKED_AT) if folder.is_dir() else ()
    found = readable_by_others((folder / "podium.db", *kept))
    if found is not None:
        shown = visible(str(found))
        click.echo(
            f"warning: other users can read {shown}: `chmod -R go-rwx {_quoted(str(folder))}` makes it private; "
            "`permissions: umask` in the configuration file leaves it to you",
            err=True,
        )


def _recordings(record: Path | None, replay: Path | None, *, goes_on: bool) -> "Recordings | None":
    if record is not None and replay is not None:
        raise click.UsageError("--record calls agents and --replay calls none: give one of them.")
    use_configured_permissions()  # before the folder is made
    return recordings_in(record, replay, goes_on=goes_on)


def _begin(view: ProgressView, run_id: RunId) -> None:
    """A reader that went away does not keep a run from beginning."""
    with surviving_lost_output():
        view.begin(run_id)


def _notifier(view: ProgressView) -> Callable[[Notice], None]:
    def notify(notice: Notice) -> None:
        with surviving_lost_output():
            view.notice(notice)

    return notify


async def _what_it_waits_for(store: Store, folder: Path, run_id: RunId) -> "Sequence[Reason]":
    run = await store.get_run(run_id)
    directory = RunDirectory(folder, run_id)
    plan = await load_plan(store, directory, run)
    kept = values_of(store, run_id, directory, payload_store)
    from podium.operations.explaining import explain_run

    return (await explain_run(store, run, plan, system_clock().now(), kept)).reasons


def _tell_left(ended: RunEnded, waits_for: "Sequence[Reason]", *, err: bool) -> None:
    from podium.cli.reasons import print_reason

    click.echo(f"run {ended.run_id} is left {ended.reason}:", err=err)
    for reason in waits_for:
        print_reason(reason, err=err)
    say(f"then continue: `podium resume {ended.run_id}`", err=err)


def _tell_nothing_ran(reasons: "Sequence[Reason]", *, err: bool) -> None:
    if reasons:
        click.echo("the run ended again immediately; no step ran:", err=err)
    from podium.cli.reasons import print_reason

    for reason in reasons:
        print_reason(reason, err=err)


async def _observers(
    view: ProgressView,
    store: Store,
    run_id: RunId,
    turn: PersonsTurn,
    before: RunNotes | None = None,
    *,
    ask: bool = True,
) -> list[Observer]:
    """The view; what it does not tell of: what was taken over, and why; and at a terminal, questions."""
    if isinstance(view, JsonLines):
        return [surviving(view.observe)]
    observers: list[Observer] = [surviving(view.observe)]
    if not _is_quiet(view):
        observers.append(surviving(_tell_reuse))
    if (
        ask
        and isinstance(view, Quiet)
        and sys.stdin is not None
        and sys.stdin.isatty()
        and sys.stdout.isatty()
    ):
        from podium.cli.asking import Questions

        run = await store.get_run(run_id)
        questions = Questions(store, await load_plan(store, RunDirectory(view.runs, run_id), run))
        turn.on_doubt = partial(questions.doubt, run.identity)
        questions.recall(run.identity, before if before is not None else await notes_of(store, run_id))
        observers.append(questions.observe)
    return observers


def _is_quiet(view: ProgressView) -> bool:
    return isinstance(view, Quiet) and not isinstance(view, Lines)


def _tell_reuse(records: Sequence[EventRecord]) -> None:
    for record in records:
        if b'"reusedFrom"' in record.payload or b'"changed"' in record.payload:
            _tell_step_reuse(record)
        elif b'"askedAgain"' in record.payload:
            for path in msgspec.json.decode(record.payload).get("askedAgain") or ():
                click.echo(
                    f"         {visible(str(path))}: asked again: its approval was given for another plan"
                )


def _tell_step_reuse(record: EventRecord) -> None:
    payload = msgspec.json.decode(record.payload)
    step, earlier = visible(record.step_id or ""), payload.get("reusedFrom")
    if isinstance(earlier, dict):
        run_id = visible(str(earlier.get("runId")))
        click.echo(f"         {step}: reused from run {run_id}: same command, inputs and files")
    elif earlier is not None and record.event_type in _ENDS_OF_STEPS:
        approval = "; its approval was given for the same plan" if "signalId" in payload else ""
        click.echo(f"         {step}: taken over from run {visible(str(earlier))}{approval}")
    elif "changed" in payload and earlier is None:
        click.echo(f"         {step}: changed: {visible(str(payload['changed']))}")


_ENDS_OF_STEPS = frozenset({"StepCompleted", "StepFailed", "StepSkipped", "StepInterrupted"})


@contextlib.contextmanager
def interruptible(*, at_once: bool = True) -> Iterator[Callable[[Driving], None]]:
    """SIGINT or SIGTERM once cancels the run, twice kills it; also one that comes before the run has begun.

    SIGHUP cancels it as well, unless it was ignored when this process started (`nohup`). It never kills: when
    a terminal is closed it comes twice, from the kernel and from the shell.

    Gives what an engine is to call when the run is ours. `at_once` False: signals mean that from then on only.
    """
    asked = 0
    under_way: Driving | None = None
    loop = asyncio.get_running_loop()

    def on_hangup() -> None:
        if not asked:
            on_signal()

    def on_signal() -> None:
        nonlocal asked
        asked += 1
        if under_way is not None:
            under_way.cancel("interrupted", force=asked > 1)

    def on_driving(driving: Driving) -> None:
        nonlocal under_way
        under_way = driving
        if asked:
            driving.cancel("interrupted", force=asked > 1)
        if not at_once:
            listen()

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, on_hangup)

    if at_once:
        listen()
    try:
        yield on_driving
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


def _raised(budgets: tuple[str, ...]) -> dict[str, Any] | None:
    """The signal that raises a budget."""
    if not budgets:
        return None
    from podium.operations.budgets import parse_budget

    return {"params": parse_budget(budgets), "reason": "podium resume --budget"}


async def _raise_budget(store: Store, folder: Path, run: Run, raised: dict[str, Any]) -> None:
    from podium.operations.signals import check_signal, send_signal

    run_id = run.identity.run_id
    if run.status in TERMINAL:
        raise click.UsageError(
            f"--budget is for an open run, and {run_id!r} has ended. Resume it without; should its budget be "
            f"used up, it stops again, and can be given more then."
        )
    directory = RunDirectory(folder, run_id)
    plan = await load_plan(store, directory, run)
    kept = values_of(store, run_id, directory, payload_store)
    await check_signal(store, run, plan, "UPDATE_PARAMS", raised, kept)
    await send_signal(store, system_clock(), run.identity.tenant_id, run_id, "UPDATE_PARAMS", raised)


def _read_inputs(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from podium.language.reader import read_yaml
    from podium.language.tree import Mapping, plain

    name, content = read_file(str(path))
    document = read_yaml(content, name)
    if not isinstance(document.root, Mapping):
        print_diagnostics(document.report.diagnostics, document.report.omitted)
        raise click.UsageError(f"'{visible(name)}' has no inputs: write name: value lines.")
    values = plain(document.root)
    assert isinstance(values, dict)
    return values


def _require_needs(plan: Plan, workspace: Path, *, replays: bool) -> None:
    """What the run needs is there, or nothing is created for it."""
    readiness = check_run(plan, workspace, replays=replays)
    for warning in readiness.warnings:
        click.echo(f"warning: {visible(warning)}", err=True)
    readiness.require()


async def _require_needs_again(
    store: Store, folder: Path, run: Run, plan: Plan | None, workspace: Path | None, *, replays: bool
) -> None:
    """Before anything about the run changes. A living driver has what it needs; a completed run needs nothing."""
    from podium.operations.driving import driver_of

    if run.status is RunStatus.COMPLETED or (await driver_of(store, run)).is_alive:
        return
    directory = RunDirectory(folder, run.identity.run_id)
    plan = plan or await load_plan(store, directory, run)
    workspace = workspace or workspace_of(directory, run)
    check_workspace(run, workspace)
    _require_needs(plan, workspace, replays=replays)


def _show_plan(file: str, compiled: Plan, workspace: Path | None, *, replays: bool) -> int:
    from podium.cli.workflow import plan

    context = click.get_current_context()
    result: int = context.invoke(plan, file=file, as_json=False, workspace=workspace)
    click.echo("\nDry run: nothing was run.")
    sys.stdout.flush()
    _require_needs(compiled, workspace if workspace is not None else Path.cwd(), replays=replays)
    return result
