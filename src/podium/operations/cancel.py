"""Cancels a run: its driver is asked to stop it; a run without a live driver is stopped by this process."""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from podium.errors import LogMoved
from podium.log.events import EventType
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.operations.drive import ReadyRun
from podium.operations.driving import RunDriver, undriven
from podium.operations.env_files import EnvFile, EnvFileRequired
from podium.operations.explaining import explain_run
from podium.operations.parts import Parts
from podium.operations.pausing import WITHOUT_DRIVER, signal_type_of
from podium.operations.resume import require_env_files
from podium.operations.signal_refusals import RunIsOver
from podium.operations.signals import check_may_drive, send_signal
from podium.ports.store import Store
from podium.runtime.ends import newest
from podium.runtime.reading import records_of
from podium.text import visible

_STOPPING: Final = ("CANCEL", "EMERGENCY_STOP")
_MAX_TRIES: Final = 20
_LOOK_BACK: Final = 100


class AskedToCancel(NamedTuple):
    run: Run
    # To be driven to its end here; None if its driver does that, or the run has ended.
    ready: ReadyRun | None


async def cancel_run(
    parts: Parts, tenant_id: str, run_id: str, *, reason: str | None = None, env_files: Sequence[EnvFile] = ()
) -> AskedToCancel:
    """Raises `RunNotFound`, and `NotAllowed` for a step of the run itself."""
    run, last = await _ask(parts, tenant_id, run_id, {"reason": reason} if reason else {})
    if last is None:
        return AskedToCancel(run, None)
    await _warn_of_other_host(parts, run, last)
    parts.notify(f"no process drives run {run_id}; this one stops it")
    await _warn_of_missing_variables(parts, run, env_files)
    return AskedToCancel(run, ReadyRun(run.identity.run_id, followed_from=run.head, check=False))


async def _ask(
    parts: Parts, tenant_id: str, run_id: str, payload: dict[str, Any]
) -> tuple[Run, RunDriver | None]:
    """Record the request. Returns the last driver if no live process will act on it.

    Of several concurrent cancels only one is recorded: a second CANCEL would stop `finally`, although nothing
    has been done about the first. The same applies to consecutive cancels of a run that no process drives.
    """
    store, clock, access = parts.store, parts.clock, parts.access()
    send = partial(send_signal, store, clock, tenant_id, run_id, "CANCEL", payload, access=access)
    for tries_left in reversed(range(_MAX_TRIES)):
        run = await store.runs.find(tenant_id, run_id)
        if run.status in TERMINAL:
            # Changes nothing, but is only permitted to callers who may cancel.
            await check_may_drive(store, clock, run, access, signal_type="CANCEL")
            return run, None
        last = await undriven(store, run, also_queued=True)
        if await (_is_noticed_by_none(store, run) if last is None else _is_asked_for(store, run)):
            await check_may_drive(store, clock, run, access, signal_type="CANCEL")
            return run, last
        # Other processes append to a run that is driven; it is sent the signal nevertheless.
        after = run.head if last is not None or tries_left else None
        with contextlib.suppress(LogMoved, RunIsOver):
            await send(after=after)
            return run, last
    with contextlib.suppress(RunIsOver):
        return (await send()).run, None
    return await store.runs.find(tenant_id, run_id), None


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


async def _warn_of_other_host(parts: Parts, run: Run, last: RunDriver) -> None:
    """Processes on another host cannot be stopped from here: report which steps have left some."""
    if not last.is_elsewhere:
        return
    kept = parts.values(run.identity.run_id)
    explained = await explain_run(parts.store, run, await parts.plan_of(run), parts.clock.now(), kept)
    steps = [visible(repr(one.subject)) for one in explained.reasons if one.kind == "task"]
    if steps:
        parts.notify(
            f"warning: {last.title} drove this run; processes of {', '.join(steps)} that still run there "
            "cannot be stopped from here"
        )


async def _warn_of_missing_variables(parts: Parts, run: Run, env_files: Sequence[EnvFile]) -> None:
    """The run is ended in any case; but `finally` may need variables that are not stored."""
    try:
        await require_env_files(parts, run, env_files, f"podium cancel {run.identity.run_id}")
    except EnvFileRequired as missing:
        parts.notify(f"warning: steps of `finally` run without these variables: {missing}")
