"""Watches a run that workers of another engine execute: its log is followed; requests are stored there."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from podium.access.actors import Actor
from podium.engines.control import idle_because
from podium.engines.parts import LocalParts
from podium.errors import ConcurrencyLimit, PodiumError, StoreUnavailable
from podium.log.events import EventRecord, EventType, encode_payload
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import NOT_STARTED, RUN_ENDS
from podium.machine import Machine
from podium.machine.answers import failure_payload
from podium.machine.progress import Progress
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded
from podium.ports.store import Store
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked
from podium.runtime.outages import Outages
from podium.runtime.plan_approval import wait_for_approval
from podium.runtime.plan_file import load_plan
from podium.runtime.reopening import Reopening
from podium.runtime.replaying import replayed
from podium.runtime.signalling import append_while_open, stop_body
from podium.runtime.slots import CONCURRENCY_LIMIT
from podium.runtime.spilling import whole
from podium.runtime.writing import new_event

_LOOK_SECONDS: Final = 0.1


async def _never() -> str | None:
    return None


async def watch_run(
    parts: LocalParts,
    run: Run,
    *,
    observers: Sequence[Observer],
    on_driving: Callable[[Driving], None] | None,
    on_waiting: Callable[[Progress], None] | None,
    notify: Callable[[Notice], None] | None,
    no_wait: bool,
    why_left: Callable[[], Awaitable[str | None]] = _never,
) -> RunEnded:
    """Watch to its end; with `no_wait` only until nothing in it can continue by itself, or `why_left` says
    that no process drives it.
    """
    run_id = run.identity.run_id
    control = _Control(parts, run_id)
    if on_driving is not None:
        on_driving(control)
    following = _Following(parts, run_id, observers, on_waiting, notify)
    try:
        if run.waits_for_approval and await _is_left(parts, run_id, on_waiting, notify, no_wait=no_wait):
            return RunEnded(run_id, LEFT, RESUMABLE, "waiting", "")
        machine = await following.machine(run)
        while (end := await following.read(machine)) is None:
            reason = (idle_because(machine.obligations()) or await why_left()) if no_wait else None
            reason = reason or control.why_left
            if reason is not None:
                return RunEnded(run_id, LEFT, RESUMABLE, reason, "")
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        await control.close()
    return _ended(end)


async def _is_left(
    parts: LocalParts,
    run_id: RunId,
    on_waiting: Callable[[Progress], None] | None,
    notify: Callable[[Notice], None] | None,
    *,
    no_wait: bool,
) -> bool:
    """Wait for the approval of the plan; the execution learns of it from the signal."""
    look = partial(parts.patiently, run_id, partial(parts.store.get_run, run_id), notify)
    return await wait_for_approval(parts.store, look, on_waiting=on_waiting, no_wait=no_wait) == "left"


async def end_unstarted(parts: LocalParts, run: Run, owner: str, error: PodiumError) -> None:
    """End a run whose execution could not be started, so that it does not stay open.

    If the server has started it nevertheless, its execution finds that the run is over; unless the run has
    started before: then it continues.
    """
    run_id = run.identity.run_id
    lease = await parts.store.claim(run_id, owner=owner, ttl=None)
    if lease is not None and (await parts.store.get_run(run_id)).status in NOT_STARTED:
        payload = failure_payload(1, error.code, str(error), reason="not started")
        write = new_event(run.identity, EventType.RUN_FAILED, parts.now(), encode_payload(payload))
        await parts.store.append(run_id, [write], fence=lease.fence)
        await parts.store.release(lease)


async def record_reopening(store: Store, reopening: Reopening, owner: str) -> None:
    """Recorded before an execution starts for it, so that it is certain. `owner` has the lease until one
    does.
    """
    lease = await store.claim(reopening.run_id, owner=owner, ttl=None)
    if lease is None:
        raise RunLocked(reopening.run_id, None)
    await reopening.carry_out(lease)


def _ended(end: EventRecord) -> RunEnded:
    ended = ended_by(end)
    if ended.event_type == EventType.RUN_CANCELLED and ended.reason == CONCURRENCY_LIMIT:
        raise ConcurrencyLimit(
            f"run {ended.run_id!r} was not started: other runs use its concurrency key; start it again when they have "
            "ended, or set `on_conflict: queue` to wait for them"
        )
    return ended


class _Following:
    """Passes on what is in the log of a run."""

    def __init__(
        self,
        parts: LocalParts,
        run_id: RunId,
        observers: Sequence[Observer],
        on_waiting: Callable[[Progress], None] | None,
        notify: Callable[[Notice], None] | None,
    ) -> None:
        self._parts = parts
        self._run_id = run_id
        self._observers = observers
        self._on_waiting = on_waiting
        # The run continues without this process, which therefore stays during a temporary outage of the
        # store.
        self._outages = Outages(run_id, parts.now, budget=parts.outage, notify=notify)

    async def machine(self, run: Run) -> Machine:
        """The current state of the run; if it has started, only later events are shown."""
        plan = await load_plan(self._parts.store, self._parts.directory(self._run_id), run)
        if run.head <= 1:
            return Machine(plan)
        return await replayed(self._parts.store, self._run_id, plan, self._parts.values(self._run_id))

    async def read(self, machine: Machine) -> EventRecord | None:
        """Read new records; returns the run's last event if it is over."""
        values = self._parts.values(self._run_id)
        if _is_over(machine):
            return await last_end(self._parts.store, await self._parts.store.get_run(self._run_id))
        records = await self._new_records(machine.last_seq)
        if not records:
            return None
        for observer in self._observers:
            observer(records)
        for record in records:
            machine.advance(await whole(record, values))
        if self._on_waiting is not None:
            self._on_waiting(machine.progress())
        ends = [record for record in records if record.event_type in RUN_ENDS]
        return ends[-1] if _is_over(machine) else None

    async def _new_records(self, after: int) -> list[EventRecord]:
        read = partial(self._parts.store.read, self._run_id, after=after)
        try:
            return await read()
        except StoreUnavailable as error:
            return await self._outages.outlast(error, read)


def _is_over(machine: Machine) -> bool:
    return machine.terminal


class _Control:
    """The `Driving` that a caller receives: its requests are stored, and a worker executes them.

    There may be no worker: a caller that repeats a stop by force does not have to wait.
    """

    def __init__(self, parts: LocalParts, run_id: RunId) -> None:
        self._parts = parts
        self._run_id = run_id
        self._asking: list[asyncio.Task[None]] = []
        self._is_forced = False
        self.why_left: str | None = None

    def cancel(self, reason: str, *, force: bool = False, by: Actor | None = None) -> None:
        if force and self._is_forced:
            self.why_left = "to be stopped"
            return
        self._is_forced = self._is_forced or force
        self._asking.append(asyncio.ensure_future(self._cancel(stop_body(reason, by, force=force))))

    async def _cancel(self, payload: dict[str, Any]) -> None:
        run = await self._parts.store.get_run(self._run_id)
        write = new_event(
            run.identity,
            EventType.SIGNAL_ACCEPTED,
            self._parts.now(),
            encode_payload(payload),
            subject=payload["signalId"],
        )
        await append_while_open(self._parts.store, self._run_id, write)

    async def close(self) -> None:
        await asyncio.gather(*self._asking, return_exceptions=True)
