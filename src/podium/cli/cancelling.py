"""`podium cancel`: asks the driver of a run to stop it; a run that no living process drives is stopped by this one."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from podium.cli.env_files import require_env_files, use_env_files
from podium.cli.following import drive_or_follow
from podium.cli.places import given_runs, say
from podium.cli.progress import ProgressView, progress_view
from podium.cli.running import interruptible
from podium.cli.storing import using_store
from podium.cli.waiting import PersonsTurn
from podium.errors import LogMoved
from podium.log.events import EventType
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.operations.driving import RunDriver, undriven
from podium.operations.env_files import EnvFile, EnvFileRequired
from podium.operations.explaining import explain_run
from podium.operations.pausing import WITHOUT_DRIVER, signal_type_of
from podium.operations.signals import check_may_drive, send_signal
from podium.ports.engine import RunEnded
from podium.ports.store import Store
from podium.runtime.ends import newest
from podium.runtime.plan_file import load_plan
from podium.runtime.reading import records_of
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import values_of
from podium.text import visible
from podium.wiring import local_engine, payload_store, runs_folder, system_clock, use_configured_permissions

_STOPPING: Final = ("CANCEL", "EMERGENCY_STOP")
_MAX_TRIES: Final = 20
_LOOK_BACK: Final = 100


def cancel_run(
    store: str | None, tenant: str, run_id: str, reason: str | None, env_files: Sequence[Path] = ()
) -> int:
    use_configured_permissions()
    folder = runs_folder(given_runs())
    variables = use_env_files(env_files)
    view = progress_view(None, folder, as_json=False, quiet=False, stream=False)

    async def work(opened: Store) -> Run | RunEnded:
        run, last = await _ask(opened, tenant, run_id, {"reason": reason} if reason else {})
        if last is None:
            return run
        await _warn_of_other_host(opened, folder, run, last)
        say(f"no process drives run {run_id}; this one stops it", err=True)
        await _warn_of_missing_variables(opened, folder, run, variables)
        return await _stop(opened, folder, run, view)

    try:
        done = using_store(store, work)
    finally:
        view.close()
    if isinstance(done, RunEnded):
        click.echo(f"the run is {done.event_type.removeprefix('Run').lower()}")
    else:
        click.echo(f"cancel was asked for (the run is {done.status.value.lower()})")
    return 0


async def _warn_of_missing_variables(
    store: Store, folder: Path, run: Run, variables: Sequence[EnvFile]
) -> None:
    """A run that is to end ends all the same; but `finally` may need what is not stored."""
    try:
        await require_env_files(store, folder, run, variables, f"podium cancel {run.identity.run_id}")
    except EnvFileRequired as missing:
        say(f"warning: steps of `finally` run without these variables: {missing}", err=True)


async def _ask(
    store: Store, tenant: str, run_id: str, payload: dict[str, Any]
) -> tuple[Run, RunDriver | None]:
    """Record the wish. With the last driver if no living process will act on it.

    Of several that cancel a run at once one is recorded: a second CANCEL would stop `finally`, and nothing has been
    done about the first. The same is true of those who cancel one after another a run that no process drives.
    """
    clock = system_clock()
    for tries_left in reversed(range(_MAX_TRIES)):
        run = await store.runs.find(tenant, run_id)
        if run.status in TERMINAL:
            break
        last = await undriven(store, run, also_queued=True)
        if await (_is_noticed_by_none(store, run) if last is None else _is_asked_for(store, run)):
            await check_may_drive(store, clock, run, signal_type="CANCEL")
            return run, last
        # Others append to a run that is driven; it is asked all the same.
        after = run.head if last is not None or tries_left else None
        with contextlib.suppress(LogMoved):
            await send_signal(store, clock, tenant, run_id, "CANCEL", payload, after=after)
            return run, last
    return await send_signal(store, clock, tenant, run_id, "CANCEL", payload), None


async def _is_noticed_by_none(store: Store, run: Run) -> bool:
    """Whether a CANCEL is in the log and its driver has recorded nothing since."""
    after = max(0, run.head - _LOOK_BACK)
    for record in reversed(await store.read(run.identity.run_id, after=after, limit=_LOOK_BACK)):
        if record.event_type not in WITHOUT_DRIVER:
            return False
        if record.event_type == EventType.SIGNAL_ACCEPTED and signal_type_of(record) in _STOPPING:
            return True
    return False


async def _is_asked_for(store: Store, run: Run) -> bool:
    """Whether a CANCEL was accepted since the run was last opened."""
    opened = await newest(store, run, frozenset({EventType.RUN_REOPENED}))
    after = opened.run_seq if opened is not None else 0
    async for record in records_of(store, run.identity.run_id, after=after):
        if record.event_type == EventType.SIGNAL_ACCEPTED and signal_type_of(record) in _STOPPING:
            return True
    return False


async def _stop(store: Store, folder: Path, run: Run, view: ProgressView) -> RunEnded:
    """Drive the run to the end that the CANCEL in its log leads to, or follow the process that does."""
    run_id = run.identity.run_id
    engine = local_engine(store, system_clock(), folder)
    view.begin(run_id)
    turn = PersonsTurn(view, run_id)

    async def drive() -> RunEnded:
        with interruptible(at_once=False) as on_driving:
            return await engine.drive(
                run_id,
                observers=[view.observe, turn.observe],
                on_waiting=turn.owed,
                on_driving=on_driving,
                lock_wait=0.0,
                check=False,
            )

    return await drive_or_follow(store, folder, run, view, drive)


async def _warn_of_other_host(store: Store, folder: Path, run: Run, last: RunDriver) -> None:
    """Processes of another host cannot be stopped from here: say which steps have left some."""
    if not last.is_elsewhere:
        return
    directory = RunDirectory(folder, run.identity.run_id)
    kept = values_of(store, run.identity.run_id, directory, payload_store)
    plan = await load_plan(store, directory, run)
    explained = await explain_run(store, run, plan, system_clock().now(), kept)
    steps = [visible(repr(one.subject)) for one in explained.reasons if one.kind == "task"]
    if steps:
        click.echo(
            f"warning: {last.title} drove this run; processes of {', '.join(steps)} that still run there "
            "cannot be stopped from here",
            err=True,
        )
