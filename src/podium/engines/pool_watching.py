"""Following a run of a pool: its hosts drive it, and the caller sees what they record."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from podium.engines.parts import LocalParts
from podium.engines.watching import watch_run
from podium.log.runs import Run
from podium.log.transitions import NOT_STARTED
from podium.machine.progress import Progress
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded
from podium.runtime import holders
from podium.runtime.lock import RunLocked
from podium.runtime.reopening import Reopening, RunEndedAlready

_PATIENCE_SECONDS: Final = 3.0


async def watch_pool_run(
    parts: LocalParts,
    reopening: Reopening,
    run: Run,
    *,
    observers: Sequence[Observer],
    on_driving: Callable[[Driving], None] | None,
    on_waiting: Callable[[Progress], None] | None,
    notify: Callable[[Notice], None] | None,
    no_wait: bool,
) -> RunEnded:
    """Follow to its end; with `no_wait`, only while a host drives it and it can continue by itself."""
    run_id = run.identity.run_id
    if await reopening.is_completed():
        raise RunEndedAlready(run_id)
    await reopening.check(run)
    if reopening.is_wanted:
        await _reopen(parts, reopening)
    elif no_wait and run.status in NOT_STARTED:
        return RunEnded(run_id, LEFT, RESUMABLE, f"waiting for a host of pool {run.pool}", "")
    return await watch_run(
        parts,
        run,
        observers=observers,
        on_driving=on_driving,
        on_waiting=on_waiting,
        notify=notify,
        no_wait=no_wait,
        why_left=_Hosts(parts, run).why_left,
    )


class _Hosts:
    """Whether a host drives a run. A free host claims it within a second."""

    def __init__(self, parts: LocalParts, run: Run) -> None:
        self._parts = parts
        self._run = run
        self._missing_since: float | None = None

    async def why_left(self) -> str | None:
        run_id, now = self._run.identity.run_id, asyncio.get_running_loop().time()
        held = await self._parts.patiently(run_id, partial(self._parts.store.held_lease, run_id))
        if held is not None and held.is_live:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since > _PATIENCE_SECONDS:
            return f"waiting for a host of pool {self._run.pool}"
        return None


async def _reopen(parts: LocalParts, reopening: Reopening) -> None:
    """The reopening is recorded here; then the run is free, and a host continues it."""
    store = parts.store
    lease = await store.claim(reopening.run_id, owner=holders.new_owner(), ttl=parts.lease)
    if lease is None:
        raise RunLocked(reopening.run_id, None)
    try:
        await reopening.carry_out(lease)
    finally:
        await store.release(lease)
