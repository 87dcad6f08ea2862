"""A run inside a Temporal workflow: it hosts the follower, and activities do all the work.

An attempt is one activity, which records its own start and end. If it is the only one, it carries the
decisions before it, so a step of a sequence costs one activity; concurrent starts of several steps, timers
and answers are recorded in one local activity. This module runs in Temporal's sandbox: it imports the SDK,
the pure packages and msgspec.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityCancellationType

from podium.engines.run_loop import Attempt as RunningAttempt
from podium.engines.run_loop import RunLoop
from podium.engines.temporal.earlier_builds import machine_of
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
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.engines import TEMPORAL
from podium.log.events import EventType
from podium.machine.commands import CancelTask, Probe, RunTask
from podium.machine.following import Abandoned, Follower
from podium.machine.machine import Machine
from podium.plan import overrides as _overrides  # noqa: F401 - here, and not in the middle of a run
from podium.plan.capabilities import parallel_limit
from podium.plan.loading import read_plan

_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2), maximum_attempts=0
)
# Local activities only access the store.
_LOCAL: Final[dict[str, Any]] = {"start_to_close_timeout": timedelta(seconds=30), "retry_policy": _RETRY}
_FOREVER: Final = timedelta(days=3650)
_BRIEFLY: Final = timedelta(seconds=60)
# The death of a worker is detected after this time.
_HEARTBEAT: Final = timedelta(seconds=5)
# Below the server's limits of 51,200 events and 50 MB: from here on no attempt starts in this execution.
_MAX_EVENTS: Final = 40_960
_MAX_BYTES: Final = 40 * 1024 * 1024

Attempt: TypeAlias = workflow.ActivityHandle[AttemptEnd]


@workflow.defn(name=workflow_type())
class RunWorkflow:
    def __init__(self) -> None:
        self._nudged = True
        self._loop: _WorkflowLoop | None = None

    @workflow.run
    async def run(self, args: RunArgs) -> None:
        opened = await self._open(args)
        while opened.waits_for_approval:
            # No activity waits, so any number of runs may do so for weeks. Signals nudge the run, even while
            # there is no worker.
            await workflow.wait_condition(lambda: self._nudged)
            if workflow.info().is_continue_as_new_suggested():
                _continue(args)
            opened = await self._open(args)
        if opened.is_over:
            return
        loop = self._loop = _WorkflowLoop(args, opened.generation)
        machine = _machine_of(opened)
        follower = Follower(machine, opened.identity, parallel_limit(machine.plan, TEMPORAL))
        loop.follow(follower)
        await loop.read()
        if opened.start is not None and not follower.machine.ends_before_start:
            follower.submit(EventDraft(EventType.RUN_STARTED, payload=opened.start))
        follower.restart()
        if not await loop.drive():
            _continue(args)
        await workflow.execute_local_activity("podium.close", args.run_id, **_LOCAL)

    async def _open(self, args: RunArgs) -> OpenedRun:
        self._nudged = False
        opened: OpenedRun = await workflow.execute_activity(
            "podium.open",
            args,
            result_type=OpenedRun,
            task_queue=args.queue,
            # It may wait for a slot.
            start_to_close_timeout=_FOREVER,
            heartbeat_timeout=_HEARTBEAT,
            retry_policy=_RETRY,
        )
        return opened

    @workflow.signal
    def nudge(self) -> None:
        """The log has new records."""
        self._nudged = True
        if self._loop is not None:
            self._loop.nudge()


def _continue(args: RunArgs) -> NoReturn:
    workflow.continue_as_new(RunArgs(args.run_id, args.queue, args.rotation + 1))


class _WorkflowLoop(RunLoop):
    def __init__(self, args: RunArgs, generation: int) -> None:
        super().__init__(args.run_id)
        self._queue = args.queue
        self._generation = generation

    def now(self) -> datetime:
        return workflow.now()

    def may_start(self) -> bool:
        """Near the limits of a history no attempt starts; the execution is replaced as soon as none is
        running.
        """
        info = workflow.info()
        if not info.is_continue_as_new_suggested():
            return True
        is_full = (
            info.get_current_history_length() >= _MAX_EVENTS or info.get_current_history_size() >= _MAX_BYTES
        )
        return not is_full and bool(self.attempts)

    def may_leave(self) -> bool:
        return not self.may_start() and not self.attempts and not self.helpers

    # --- the log ----------------------------------------------------------------------------------

    async def read_log(self, after: int) -> tuple[list[LoggedEvent], bool]:
        found: ReadEvents = await workflow.execute_local_activity(
            "podium.read", ReadOrder(after), result_type=ReadEvents, **_LOCAL
        )
        return found.events, found.has_more

    async def write_log(self, events: list[EventDraft], dropped: list[str]) -> Written:
        order = WriteOrder(self._generation, events, dropped)
        written: Written = await workflow.execute_local_activity(
            "podium.write", order, result_type=Written, **_LOCAL
        )
        return written

    # --- attempts ---------------------------------------------------------------------------------

    def perform(self, order: AttemptOrder, task: RunTask) -> Attempt:
        handle: Attempt = workflow.start_activity(
            "podium.perform",
            AttemptArgs.of(order, self._generation),
            result_type=AttemptEnd,
            task_queue=self._queue,
            start_to_close_timeout=_FOREVER,
            heartbeat_timeout=_HEARTBEAT,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=_RETRY,
        )
        return handle

    def was_lost(self, error: BaseException) -> bool:
        return isinstance(error, ActivityError | asyncio.CancelledError)

    def stop(self, command: CancelTask, attempt: RunningAttempt | None) -> None:
        if attempt is None:
            return  # it has just ended
        attempt.cancel()
        if command.force:
            self.beside(self._kill(command))

    async def _kill(self, command: CancelTask) -> None:
        """A cancellation can be requested only once, and cannot express force."""
        await self._briefly("podium.kill", KillOrder(command.path, command.attempt))

    async def end_abandoned(self, order: AttemptOrder, abandoned: Abandoned) -> AttemptEnd:
        done: AttemptEnd = await self._briefly(
            "podium.abandon", AttemptArgs.of(order, self._generation), AttemptEnd
        )
        return done

    async def ask(self, probe: Probe) -> list[bool]:
        questions = [(question.kind, question.name) for question in probe.questions]
        answers: list[bool] = await self._briefly("podium.ask", ProbeOrder(questions), list[bool])
        return answers

    async def _briefly(self, name: str, order: msgspec.Struct, result_type: Any = None) -> Any:
        return await workflow.execute_activity(
            name,
            order,
            result_type=result_type,
            task_queue=self._queue,
            start_to_close_timeout=_BRIEFLY,
            retry_policy=_RETRY,
        )


def _machine_of(opened: OpenedRun) -> Machine:
    plan = read_plan(opened.plan)
    if opened.machine is None:
        return Machine(plan)
    return machine_of(plan, opened.machine)
