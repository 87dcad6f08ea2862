"""Limits how many runs with the same concurrency key are active, over all processes that share a store.

The store decides: a run's lease is granted together with its slot, in one transaction. A process that has to
wait holds a place in the queue, which is a lease of its own, so that a process that dies leaves the queue
automatically. Runs with a higher priority come first, then older runs. Each run applies its own limit.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from hashlib import sha256
from re import sub
from typing import Any, Final, Literal, TypeAlias

from podium.access.actors import Actor, Method
from podium.errors import ConcurrencyLimit, InvalidId, PodiumError
from podium.expressions.evaluate import MISSING
from podium.expressions.templates import render
from podium.log.events import EventType, EventWrite, encode_payload
from podium.log.ids import RunId, check_id
from podium.log.leases import IN_LINE, Lease
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.plan.plan import Concurrency, Plan
from podium.ports.clock import Clock
from podium.ports.engine import Notice
from podium.ports.store import SlotLine, Store
from podium.runtime import holders
from podium.runtime.signalling import append_while_open, stop_body
from podium.runtime.writing import new_event

# Why a run was cancelled that was refused before it started.
CONCURRENCY_LIMIT: Final = "concurrency limit"
_LOOK_SECONDS: Final = 0.2
# What was found in the queue: the run's lease; that the run was cancelled; that it pays to look again, or to wait.
Found: TypeAlias = Lease | Literal["cancelled", "again", "wait"]
_STOPS: Final = (b'"signalType":"CANCEL"', b'"signalType":"EMERGENCY_STOP"')


def concurrency_key(plan: Plan, inputs: dict[str, Any], env: dict[str, str]) -> str | None:
    """The concurrency key of a run in the form in which a store keeps it."""
    if plan.concurrency is None:
        return None
    given = {name: one.default for name, one in plan.workflow.inputs.items()} | inputs
    known = {"inputs": given, "context": plan.workflow.context, "env": env}
    text = render(plan.concurrency.key, lambda path: _value(known, path))
    try:
        check_id("concurrency_key", text)
    except InvalidId:
        # Any text can be a key, but the store requires ids.
        slug = sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:80]
        return f"{slug or 'key'}-{sha256(text.encode()).hexdigest()[:12]}"
    return text


def _value(known: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        try:
            known = known[part]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return known


def describe_line(line: SlotLine, run_id: str, key: str) -> str:
    """What a run that waits for a slot is waiting for, in words."""
    waiting = [lease.run_id for lease in line.waiting]
    place = f": place {waiting.index(RunId(run_id)) + 1} of {len(waiting)}" if run_id in waiting else ""
    held = ", ".join(lease.run_id for lease in line.holders[:3])
    more = f" and {len(line.holders) - 3} more" if len(line.holders) > 3 else ""
    by = f", held by run {held}{more}" if held else ""
    return f"waiting for concurrency key {key!r}{place}{by}"


def refused(line: SlotLine, run_id: str, key: str, limit: int) -> ConcurrencyLimit:
    held = ", ".join(lease.run_id for lease in line.holders) or "runs that wait"
    return ConcurrencyLimit(
        f"run {run_id!r} was not started: {limit} at a time may use the concurrency key {key!r}, held by {held}; "
        "start it again when that run has ended, or set `on_conflict: queue` to wait for it"
    )


class SlotWaiter:
    """Waits for a slot for one run."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        run: Run,
        concurrency: Concurrency,
        *,
        owner: str,
        ttl: timedelta,
        notify: Callable[[Notice], None] | None,
        patiently: Callable[[Callable[[], Awaitable[Found]]], Awaitable[Found]] | None = None,
    ) -> None:
        """`patiently` repeats what the store did not answer; without it, `wait` raises `StoreUnavailable`."""
        self._store = store
        self._clock = clock
        self._run = run
        self._run_id = run.identity.run_id
        self._concurrency = concurrency
        self._owner = owner
        self._ttl = ttl
        self._notify = notify
        self._patiently = patiently
        self._place: Lease | None = None
        self._said = ""
        # Runs that were cancelled to free a slot, and the signal that cancels them.
        self._cancelled: set[str] = set()
        self._cancels: dict[str, EventWrite] = {}

    async def wait(
        self, claim: Callable[[], Awaitable[Lease | None]], is_cancelled: Callable[[], bool]
    ) -> Lease | None:
        """The run's lease, with a slot; None if the run was cancelled while it waited."""
        look = partial(self._look, claim, is_cancelled)
        try:
            while True:
                found = await (self._patiently(look) if self._patiently is not None else look())
                if found == "cancelled":
                    return None
                if isinstance(found, Lease):
                    self._say_over()
                    return found
                if found == "wait":
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await self._leave_line()

    async def _look(
        self, claim: Callable[[], Awaitable[Lease | None]], is_cancelled: Callable[[], bool]
    ) -> Found:
        """Ask for the lease once. May be repeated from the start if the store did not answer."""
        await self._enqueue()
        lease = await claim()
        if lease is not None:
            return lease
        line = await self._store.slot_line(self._run_id)
        if await self._released_dead(line):
            return "again"
        if self._concurrency.on_conflict == "reject":
            raise refused(line, self._run_id, self._run.concurrency_key or "", self._concurrency.limit)
        if is_cancelled() or await self._is_cancelled_in_log():
            return "cancelled"
        await self._make_room(line)
        self._say(line)
        return "wait"

    async def _enqueue(self) -> None:
        """Claim a place in the queue, and keep it."""
        if self._place is not None:
            self._place = await self._store.renew(self._place, ttl=self._ttl)
        if self._place is None:
            self._place = await self._store.claim(
                self._run_id, owner=self._owner, ttl=self._ttl, attempt=IN_LINE
            )

    async def _leave_line(self) -> None:
        if self._place is not None:
            with contextlib.suppress(PodiumError):
                await self._store.release(self._place)

    async def _released_dead(self, line: SlotLine) -> bool:
        """Whether slots or places were released on behalf of processes of this host that are gone."""
        dead = [lease for lease in (*line.holders, *line.waiting) if holders.is_gone(lease.owner)]
        for lease in dead:
            await self._store.release(lease)
        return bool(dead)

    async def _is_cancelled_in_log(self) -> bool:
        """Whether another process recorded a `podium cancel`."""
        records = await self._store.read(self._run_id, limit=100)
        return self._run.status.value in ("PENDING", "APPROVED") and any(
            record.event_type == EventType.SIGNAL_ACCEPTED and any(stop in record.payload for stop in _STOPS)
            for record in records
        )

    async def _make_room(self, line: SlotLine) -> None:
        """With `on_conflict: cancel`, the oldest run is cancelled, and the next one when that has ended."""
        if self._concurrency.on_conflict != "cancel" or not line.holders:
            return
        if any(lease.run_id in self._cancelled for lease in line.holders):
            return
        # Only the first in the queue cancels, so that each waiting run costs one run.
        if line.waiting and line.waiting[0].run_id != self._run_id:
            return
        oldest = line.holders[0].run_id
        await self._cancel(oldest)
        self._cancelled.add(oldest)

    async def _cancel(self, run_id: RunId) -> None:
        if run_id not in self._cancels:
            reason = f"run {self._run_id} of the same concurrency key has taken its place"
            payload = stop_body(reason, Actor(self._run_id, Method.RUN))
            run = await self._store.get_run(run_id)
            at = timestamp(self._clock.now())
            self._cancels[run_id] = new_event(
                run.identity,
                EventType.SIGNAL_ACCEPTED,
                at,
                encode_payload(payload),
                subject=payload["signalId"],
            )
        # Repeated if the store did not answer: the same signal is stored once, and a second one would force.
        await append_while_open(self._store, run_id, self._cancels[run_id])

    def _say(self, line: SlotLine) -> None:
        text = describe_line(line, self._run_id, self._run.concurrency_key or "")
        if self._notify is not None and text != self._said:
            self._said = text
            self._notify(Notice("slot", text))

    def _say_over(self) -> None:
        if self._notify is not None and self._said:
            self._notify(Notice("slot", "a slot is free: the run starts", is_over=True))
