"""What workers do for workflows: open a run, read and write its log, answer its questions, execute its
attempts.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from temporalio import activity
from temporalio.exceptions import ApplicationError

from podium.engines.opening import NotItsExecution
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
from podium.engines.temporal.names import run_id_of
from podium.engines.temporal.opening import ExecutionOpening
from podium.errors import PodiumError
from podium.log.attempts import AttemptEnd, AttemptOrder, Written
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.machine.commands import Question
from podium.runtime.attempts import Attempts
from podium.runtime.engine_attempt import StopRequest

_READ_LIMIT: Final = 1000
# Each is a call to the server, and most steps are done before the first.
_BEAT_SECONDS: Final = 0.5


class RunActivities:
    def __init__(self, opening: ExecutionOpening, attempts: Attempts) -> None:
        self._opening = opening
        self._attempts = attempts
        self._stops: dict[tuple[str, str, int], StopRequest] = {}

    def all(self) -> Sequence[Callable[..., Any]]:
        return (self.open, self.close, self.read, self.write, self.ask, self.perform, self.abandon, self.kill)

    @activity.defn(name="podium.open")
    async def open(self, args: RunArgs) -> OpenedRun:
        try:
            with _beating():
                return await self._opening.open(args, str(activity.info().workflow_id))
        except NotItsExecution as error:
            raise ApplicationError(str(error), type=error.code, non_retryable=True) from error

    @activity.defn(name="podium.close")
    async def close(self, run_id: str) -> None:
        await self._opening.close(run_id, str(activity.info().workflow_id))
        self._attempts.forget(run_id)

    # --- the log ----------------------------------------------------------------------------------

    @activity.defn(name="podium.read")
    async def read(self, order: ReadOrder) -> ReadEvents:
        found = await self._attempts.read(_run_id(), order.after, _READ_LIMIT)
        return ReadEvents(found, has_more=len(found) == _READ_LIMIT)

    @activity.defn(name="podium.write")
    async def write(self, order: WriteOrder) -> Written:
        return await self._attempts.write(_run_id(), Fence(order.generation), order.events, order.dropped)

    @activity.defn(name="podium.ask")
    async def ask(self, order: ProbeOrder) -> list[bool]:
        questions = [
            msgspec.convert({"kind": kind, "name": name}, Question) for kind, name in order.questions
        ]
        return await self._attempts.ask(_run_id(), questions)

    # --- attempts ---------------------------------------------------------------------------------

    @activity.defn(name="podium.perform")
    async def perform(self, args: AttemptArgs) -> AttemptEnd:
        stop, order = StopRequest(), args.order(_run_id())
        key = (order.run_id, order.path, order.attempt)
        self._stops[key] = stop
        try:
            with _beating():
                return await self._perform(order, Fence(args.generation), stop)
        except PodiumError as error:
            # The server tries a worker again and again.
            raise ApplicationError(str(error), type=error.code) from error
        finally:
            if self._stops.get(key) is stop:
                del self._stops[key]

    async def _perform(self, order: AttemptOrder, fence: Fence, stop: StopRequest) -> AttemptEnd:
        work = asyncio.create_task(self._attempts.perform(order, fence, stop))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                details = activity.cancellation_details()
                if details is not None and details.cancel_requested and not work.done():
                    stop.ask()
                    continue
                # The worker ends, or the server has given this attempt to another one.
                work.cancel()
                await asyncio.wait([work])
                raise

    @activity.defn(name="podium.abandon")
    async def abandon(self, args: AttemptArgs) -> AttemptEnd:
        """End what is left of an attempt that no worker executes any more."""
        stop = StopRequest()
        stop.ask(force=True)
        try:
            return await self._attempts.perform(args.order(_run_id()), Fence(args.generation), stop)
        except PodiumError as error:
            raise ApplicationError(str(error), type=error.code) from error

    @activity.defn(name="podium.kill")
    async def kill(self, order: KillOrder) -> None:
        """Kill immediately, even if another process of this host executes it."""
        run_id = _run_id()
        stop = self._stops.get((run_id, order.path, order.attempt))
        if stop is not None:
            stop.ask(force=True)
        else:
            await self._attempts.kill(run_id, order.path, order.attempt)


def _run_id() -> RunId:
    """The run that the activity belongs to."""
    run_id = run_id_of(str(activity.info().workflow_id))
    assert run_id is not None
    return run_id


@contextlib.contextmanager
def _beating() -> Iterator[None]:
    """Heartbeats show the server that this worker is alive, and inform this worker of a requested stop."""
    loop = asyncio.get_running_loop()
    # Not a task: most attempts are done before the first heartbeat.
    timer: asyncio.TimerHandle

    def beat() -> None:
        activity.heartbeat()
        beat_later()

    def beat_later() -> None:
        nonlocal timer
        timer = loop.call_later(_BEAT_SECONDS, beat)

    beat_later()
    try:
        yield
    finally:
        timer.cancel()
