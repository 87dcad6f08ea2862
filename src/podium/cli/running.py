"""`podium run` and `podium resume`: drive a run in this process, and show how it goes."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from podium.cli.app import INVALID_FILE
from podium.cli.output import print_diagnostics
from podium.cli.progress import ProgressView, progress_view
from podium.cli.reading import read_file
from podium.cli.storing import store_option
from podium.errors import PodiumError
from podium.language.diagnostics import visible
from podium.model.ids import RunId
from podium.model.transitions import RunStatus
from podium.operations.inputs import check_inputs, parse_inputs
from podium.operations.rerunning import carry_files_over, rerun_request
from podium.operations.signals import send_signal
from podium.operations.workflows import load_workflow
from podium.ports.engine import Driving, Engine, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.runtime.lock import RunLocked
from podium.wiring import local_engine, open_store, runs_folder, store_url, system_clock


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the workflow; repeat it for more.",
)
@click.option(
    "--input-file", type=click.Path(dir_okay=False, path_type=Path), help="A YAML or JSON file with inputs."
)
@click.option("--run-id", help="The id of the run. [default: a new one]")
@click.option(
    "--engine", type=click.Choice(["local"]), default="local", show_default=True, help="Who drives the run."
)
@click.option(
    "--workspace",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Where commands run. [default: here]",
)
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where runs are kept. [default: PODIUM_RUNS, else runs]",
)
@click.option(
    "--env-file",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="More environment variables, one NAME=value a line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
@click.option("--stream", is_flag=True, help="Show what steps print, as they print it.")
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, run nothing.")
@store_option
def run(
    file: str,
    inputs: tuple[str, ...],
    input_file: Path | None,
    run_id: str | None,
    engine: str,
    workspace: Path | None,
    runs: Path | None,
    env_file: Path | None,
    as_json: bool,
    quiet: bool,
    stream: bool,
    dry_run: bool,
    store: str | None,
) -> int:
    """Run the workflow FILE ('-' is standard input) and wait for its end.

    The run is kept in runs/<run id>: state.json, logs, artifacts. Press Ctrl-C once to cancel it, twice to kill it.

    Exit codes: 0 success, 1 failed, 2 cancelled, 3 timed out, 4 no transition, 64 wrong usage, 65 invalid workflow,
    75 the run is driven by another process.

    \b
    Examples:
      podium run examples/nightly_data_job.yaml
      podium run release.yaml --input version=1.4.0 --stream
    """
    del engine
    name, content = read_file(file)
    reading = load_workflow(content, name, workspace=workspace, missing_is_error=True)
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    plan = reading.plan
    given = check_inputs(
        {**_read_inputs(input_file), **parse_inputs(inputs, plan.workflow.inputs)}, plan.workflow
    )
    if dry_run:
        return _show_plan(file, workspace)
    if env_file is not None:
        os.environ.update(_read_env(env_file))
    request = RunRequest(plan, given, run_id, content, workspace if workspace is not None else Path.cwd())
    folder = runs_folder(runs)
    view = progress_view(plan, folder, as_json=as_json, quiet=quiet, stream=stream)

    async def work(engine: Engine, _store: Store) -> RunEnded:
        created = await engine.create(request)
        _begin(view, created)
        return await _drive(engine, created, view.observe, reopen=False)

    return _finish(folder, store, work, view)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where runs are kept. [default: PODIUM_RUNS, else runs]",
)
@click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
@click.option("--stream", is_flag=True, help="Show what steps print, as they print it.")
@store_option
def resume(
    run_id: str, runs: Path | None, as_json: bool, quiet: bool, stream: bool, store: str | None
) -> int:
    """Go on with a run that was interrupted, paused, cancelled, or has failed.

    What has been done is not done again; what was under way when it stopped is. A completed run is never taken up.
    A paused run that another process drives goes on there.
    """
    folder = runs_folder(runs)
    view = progress_view(None, folder, as_json=as_json, quiet=quiet, stream=stream)

    async def work(engine: Engine, opened: Store) -> RunEnded | None:
        known = await opened.get_run(RunId(run_id))
        paused = known.status is RunStatus.PAUSED
        if paused:
            await send_signal(opened, system_clock(), known.identity.tenant_id, run_id, "RESUME", {})
        try:
            _begin(view, RunId(run_id))
            return await _drive(engine, RunId(run_id), view.observe, reopen=True)
        except RunLocked:
            if not paused:
                raise
            return None

    return _finish(folder, store, work, view, create=False)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--from", "step", required=True, metavar="STEP", help="Where to begin: a step the run came to.")
@click.option("--run-id", "new_id", help="The id of the new run. [default: a new one]")
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where runs are kept. [default: PODIUM_RUNS, else runs]",
)
@click.option("--json", "as_json", is_flag=True, help="Print every event as JSON, one a line.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
@click.option("--stream", is_flag=True, help="Show what steps print, as they print it.")
@store_option
def rerun(
    run_id: str,
    step: str,
    new_id: str | None,
    runs: Path | None,
    as_json: bool,
    quiet: bool,
    stream: bool,
    store: str | None,
) -> int:
    """Run what was run before once more, from STEP on, as a new run.

    Results and files of the steps before it are taken over and not made again. The earlier run stays as it is.
    """
    folder = runs_folder(runs)
    view = progress_view(None, folder, as_json=as_json, quiet=quiet, stream=stream)

    async def work(engine: Engine, opened: Store) -> RunEnded:
        created = await engine.create(await rerun_request(opened, folder, RunId(run_id), step, new_id))
        carry_files_over(folder, RunId(run_id), created)
        _begin(view, created)
        return await _drive(engine, created, view.observe, reopen=False)

    return _finish(folder, store, work, view, create=False)


def _finish(
    folder: Path,
    store: str | None,
    work: Callable[[Engine, Store], Awaitable[RunEnded | None]],
    view: ProgressView,
    *,
    create: bool = True,
) -> int:
    """Drive, show the end, and exit as the run did. None: another process drives it."""

    async def driven() -> RunEnded | None:
        url = store_url(store) if store or os.environ.get("PODIUM_STORE") else str(folder / "podium.db")
        opened = await open_store(url, create=create)
        try:
            return await work(local_engine(opened, system_clock(), folder), opened)
        finally:
            await opened.close()

    try:
        ended = asyncio.run(driven())
    finally:
        with contextlib.suppress(BrokenPipeError):
            view.close()
    try:
        if ended is None:
            click.echo("the run may go on: another process drives it")
            return 0
        view.end(ended)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`); how the run ended is told by the exit code all the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ended.exit_code if ended is not None else 0


def _begin(view: ProgressView, run_id: RunId) -> None:
    """A reader that went away does not keep a run from beginning."""
    with contextlib.suppress(BrokenPipeError):
        view.begin(run_id)


async def _drive(engine: Engine, run_id: RunId, observe: Observer, *, reopen: bool) -> RunEnded:
    """SIGINT or SIGTERM once cancels the run, twice kills it; also one that comes before the run has begun."""
    asked = 0
    under_way: Driving | None = None
    loop = asyncio.get_running_loop()

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
        if reopen:
            listen()

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)

    if not reopen:
        # Who waits for another process to give a run up is simply interrupted: nothing is to be cancelled yet.
        listen()
    try:
        return await engine.drive(run_id, observers=[observe], on_driving=on_driving, reopen=reopen)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


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


def _read_env(path: Path) -> dict[str, str]:
    from podium.secrets.dotenv import parse_dotenv

    try:
        return parse_dotenv(path.read_text(), str(path))
    except (OSError, PodiumError) as error:
        raise click.UsageError(f"'{visible(str(path))}' cannot be read: {error}") from error


def _show_plan(file: str, workspace: Path | None) -> int:
    from podium.cli.workflow import plan

    context = click.get_current_context()
    result: int = context.invoke(plan, file=file, as_json=False, workspace=workspace)
    click.echo("\nDry run: nothing was run.")
    return result
