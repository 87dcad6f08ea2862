"""A run inside of a Temporal workflow: it hosts the follower, and everything that is done is done by activities.

An attempt is one activity, which records its own start and end. Alone, it takes along what was decided before it, so a
step of a sequence costs one activity; starts of several steps at once, timers and answers are recorded in one local
activity. This module runs in Temporal's sandbox: it imports the SDK, the pure packages and msgspec.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final, TypeAlias

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityCancellationType

from podium.engines.temporal.messages import (
    AttemptArgs,
    KillOrder,
    OpenedRun,
    ProbeOrder,
    ReadEvents,
    ReadOrder,
    RunArgs,
    WriteOrder,
)
from podium.engines.temporal.names import workflow_type
from podium.log.attempts import AttemptEnd, AttemptOrder, Written
from podium.log.drafts import EventDraft
from podium.log.engines import TEMPORAL
from podium.log.events import EventType
from podium.log.times import moment
from podium.machine.commands import CancelTask, Probe, RunTask, SetTimer
from podium.machine.following import Abandoned, Follower, Work
from podium.machine.machine import Machine
from podium.plan import overrides as _overrides  # noqa: F401 - here, and not in the middle of a run
from podium.plan.capabilities import parallel_limit
from podium.plan.loading import read_plan

_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2), maximum_attempts=0
)
# What is local: the store.
_LOCAL: Final[dict[str, Any]] = {"start_to_close_timeout": timedelta(seconds=30), "retry_policy": _RETRY}
_FOREVER: Final = timedelta(days=3650)
_BRIEFLY: Final = timedelta(seconds=60)
# A worker that is gone is noticed after this time.
_HEARTBEAT: Final = timedelta(seconds=5)
# Of the server's limits of 51,200 events and 50 MB: from here on no attempt starts in this execution.
_MAX_EVENTS: Final = 40_960
_MAX_BYTES: Final = 40 * 1024 * 1024

Attempt: TypeAlias = workflow.ActivityHandle[AttemptEnd]


@workflow.defn(name=workflow_type())
class RunWorkflow:
    def __init__(self) -> None:
        self._nudged = True
        self._wake = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._attempts: dict[tuple[str, int], Attempt] = {}
        # Probes, and attempts that are being ended.
        self._helpers: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, args: RunArgs) -> None:
        self._args = args
        opened = await self._open()
        while opened.waits_for_approval:
            # No activity waits: any number of runs may do so, for weeks. Signals nudge, also while no worker is there.
            await workflow.wait_condition(lambda: self._nudged)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(RunArgs(args.run_id, args.queue, args.rotation + 1))
            opened = await self._open()
        if opened.is_over:
            return
        self._generation = opened.generation
        machine = _machine_of(opened)
        self._follower = Follower(machine, opened.identity, parallel_limit(machine.plan, TEMPORAL))
        await self._read()
        if opened.start is not None and not self._follower.machine.cancelled_before_start:
            self._follower.submit(EventDraft(EventType.RUN_STARTED, payload=opened.start))
        self._follower.restart()
        if not await self._drive():
            workflow.continue_as_new(RunArgs(args.run_id, args.queue, args.rotation + 1))
        await workflow.execute_local_activity("podium.close", args.run_id, **_LOCAL)

    async def _open(self) -> OpenedRun:
        self._nudged = False
        opened: OpenedRun = await workflow.execute_activity(
            "podium.open",
            self._args,
            result_type=OpenedRun,
            task_queue=self._args.queue,
            # It may wait for a slot.
            start_to_close_timeout=_FOREVER,
            heartbeat_timeout=_HEARTBEAT,
            retry_policy=_RETRY,
        )
        return opened

    @workflow.signal
    def nudge(self) -> None:
        """There is something new in the log."""
        self._nudged = True
        self._wake.set()

    # --- the loop ---------------------------------------------------------------------------------

    async def _drive(self) -> bool:
        """False: the run is to continue in a new execution."""
        follower = self._follower
        while not follower.machine.terminal:
            self._wake.clear()
            starts = not self._is_draining()
            if follower.has_gap or self._nudged:
                await self._read()
            elif follower.has_work(starts=starts):
                await self._act(follower.take(starts=starts))
            elif not starts and not self._attempts and not self._helpers:
                return False
            else:
                await self._wake.wait()
        return True

    def _is_draining(self) -> bool:
        """At the first moment without a running attempt; near the limits of a history no other may start until then."""
        info = workflow.info()
        if not info.is_continue_as_new_suggested():
            return False
        is_full = (
            info.get_current_history_length() >= _MAX_EVENTS or info.get_current_history_size() >= _MAX_BYTES
        )
        return is_full or not self._attempts

    async def _act(self, work: Work) -> None:
        for key in work.cancelled_timers:
            self._drop_timer(key)
        if len(work.starts) == 1 and not self._attempts:
            self._start(work.starts[0], work.events, work.dropped)
        else:
            if work.events or work.dropped:
                await self._write(work.events, work.dropped)
            for task in work.starts:
                self._start(task)
        for command in work.stops:
            self._stop(command)
        for abandoned in work.abandoned:
            self._beside(self._abandon(abandoned))
        for timer in work.timers:
            self._set_timer(timer)
        for probe in work.probes:
            self._beside(self._ask(probe))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        helper = asyncio.create_task(work)
        self._helpers.add(helper)
        helper.add_done_callback(self._helped)

    def _helped(self, helper: asyncio.Task[None]) -> None:
        self._helpers.discard(helper)
        self._wake.set()

    # --- the log ----------------------------------------------------------------------------------

    async def _read(self) -> None:
        self._nudged = False
        follower, after = self._follower, self._follower.machine.last_seq
        found: ReadEvents = await workflow.execute_local_activity(
            "podium.read", ReadOrder(after), result_type=ReadEvents, **_LOCAL
        )
        follower.learn(found.events)
        if found.has_more:
            self._nudged = True
        elif follower.has_gap and follower.machine.last_seq == after:
            # Attempts that ended while the log was read may have told of later records.
            follower.accept_gap(found.events[-1].run_seq if found.events else after)

    async def _write(self, events: list[EventDraft], dropped: list[str]) -> None:
        order = WriteOrder(self._generation, events, dropped)
        written: Written = await workflow.execute_local_activity(
            "podium.write", order, result_type=Written, **_LOCAL
        )
        self._learn(events, written)

    def _learn(self, events: list[EventDraft], written: Written) -> None:
        if 0 in written.run_seqs:
            self._nudged = True  # the log has something else there
        self._follower.learn(written.events(events))

    # --- attempts ---------------------------------------------------------------------------------

    def _start(
        self, task: RunTask, events: list[EventDraft] | None = None, dropped: list[str] | None = None
    ) -> None:
        """With events that are to be recorded before it begins."""
        events = events or []
        self._follower.carry(task, events, dropped)
        handle: Attempt = workflow.start_activity(
            "podium.perform",
            AttemptArgs.of(self._order(task, events, dropped or []), self._generation),
            result_type=AttemptEnd,
            task_queue=self._args.queue,
            start_to_close_timeout=_FOREVER,
            heartbeat_timeout=_HEARTBEAT,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=_RETRY,
        )
        self._attempts[task.path, task.attempt] = handle
        attending = asyncio.create_task(self._attend(task, handle, events))
        attending.add_done_callback(lambda _: self._wake.set())

    def _order(self, task: RunTask, events: list[EventDraft], dropped: list[str]) -> AttemptOrder:
        values = [(list(path), value) for path, value in (task.values or {}).items()]
        change = msgspec.to_builtins(task.change) if task.change is not None else None
        return AttemptOrder(self._args.run_id, task.path, task.attempt, values, events, dropped, change)

    async def _attend(self, task: RunTask, handle: Attempt, events: list[EventDraft]) -> None:
        try:
            done = await handle
        except (ActivityError, asyncio.CancelledError):
            self._follower.lost(task)
        else:
            if done.is_refused:
                self._follower.refused(task)
                return
            self._learn(events, done.before)
            if done.end is not None:
                self._follower.learn((done.end,))
            self._follower.performed(task, done.stopped)
        finally:
            del self._attempts[task.path, task.attempt]

    def _stop(self, command: CancelTask) -> None:
        handle = self._attempts.get((command.path, command.attempt))
        if handle is None:
            return  # it has just ended
        handle.cancel()
        if command.force:
            self._beside(self._kill(command))

    async def _kill(self, command: CancelTask) -> None:
        """A cancellation is asked for once, and says nothing about force."""
        await self._briefly("podium.kill", KillOrder(command.path, command.attempt))

    async def _abandon(self, abandoned: Abandoned) -> None:
        """What is left of it is stopped first. It may have ended meanwhile."""
        order = AttemptOrder(self._args.run_id, abandoned.path, abandoned.attempt)
        args = AttemptArgs.of(order, self._generation)
        done: AttemptEnd = await self._briefly("podium.abandon", args, AttemptEnd)
        if done.end is not None:
            self._follower.learn((done.end,))
        else:
            self._follower.submit(abandoned.end)

    async def _ask(self, probe: Probe) -> None:
        questions = [(question.kind, question.name) for question in probe.questions]
        order = ProbeOrder(questions)
        self._follower.answered(probe, await self._briefly("podium.ask", order, list[bool]))

    async def _briefly(self, name: str, order: msgspec.Struct, result_type: Any = None) -> Any:
        return await workflow.execute_activity(
            name,
            order,
            result_type=result_type,
            task_queue=self._args.queue,
            start_to_close_timeout=_BRIEFLY,
            retry_policy=_RETRY,
        )

    # --- timers -----------------------------------------------------------------------------------

    def _set_timer(self, timer: SetTimer) -> None:
        seconds = (moment(timer.due) - workflow.now()).total_seconds()
        if seconds <= 0:
            self._follower.fired(timer)
            return
        self._timers[timer.key] = asyncio.get_running_loop().call_later(seconds, self._fire, timer)

    def _fire(self, timer: SetTimer) -> None:
        self._timers.pop(timer.key, None)
        self._follower.fired(timer)
        self._wake.set()

    def _drop_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()


def _machine_of(opened: OpenedRun) -> Machine:
    plan = read_plan(opened.plan)
    if opened.machine is None:
        return Machine(plan)
    return Machine.restore(plan, msgspec.json.decode(opened.machine), "")
