"""What workers do for workflows: open a run, read and write its log, answer its questions, carry out its attempts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import msgspec
from temporalio import activity
from temporalio.exceptions import ApplicationError

from podium.engines.temporal.messages import (
    AttemptArgs,
    AttemptDone,
    KillOrder,
    OpenedRun,
    ProbeOrder,
    ReadEvents,
    ReadOrder,
    RunArgs,
    WriteOrder,
)
from podium.engines.temporal.opening import Opening
from podium.errors import PodiumError
from podium.log.attempts import Written
from podium.log.leases import Fence
from podium.machine.commands import Question
from podium.runtime.attempts import Attempts
from podium.runtime.engine_attempt import StopRequest

_READ_LIMIT: Final = 1000
# Each is a call to the server, and most steps are over by then.
_BEAT_SECONDS: Final = 0.5


class RunActivities:
    def __init__(self, opening: Opening, attempts: Attempts) -> None:
        self._opening = opening
        self._attempts = attempts
        self._stops: dict[tuple[str, str, int], StopRequest] = {}

    def all(self) -> Sequence[Callable[..., Any]]:
        return (self.open, self.close, self.read, self.write, self.ask, self.perform, self.abandon, self.kill)

    @activity.defn(name="podium.open")
    async def open(self, args: RunArgs) -> OpenedRun:
        info = activity.info()
        async with _beating():
            return await self._opening.open(args, str(info.workflow_id), str(info.workflow_run_id))

    @activity.defn(name="podium.close")
    async def close(self, run_id: str) -> None:
        await self._opening.close(run_id, str(activity.info().workflow_id))
        self._attempts.forget(run_id)

    # --- the log ----------------------------------------------------------------------------------

    @activity.defn(name="podium.read")
    async def read(self, order: ReadOrder) -> ReadEvents:
        found = await self._attempts.read(order.run_id, order.after, _READ_LIMIT)
        return ReadEvents(order.run_id, found, has_more=len(found) == _READ_LIMIT)

    @activity.defn(name="podium.write")
    async def write(self, order: WriteOrder) -> Written:
        return await self._attempts.write(order.run_id, Fence(order.generation), order.events, order.dropped)

    @activity.defn(name="podium.ask")
    async def ask(self, order: ProbeOrder) -> list[bool]:
        questions = [
            msgspec.convert({"kind": kind, "name": name}, Question) for kind, name in order.questions
        ]
        return await self._attempts.ask(order.run_id, questions)

    # --- attempts ---------------------------------------------------------------------------------

    @activity.defn(name="podium.perform")
    async def perform(self, args: AttemptArgs) -> AttemptDone:
        stop = StopRequest()
        key = (args.run_id, args.order.path, args.order.attempt)
        self._stops[key] = stop
        try:
            async with _beating():
                return await self._perform(args, stop)
        except PodiumError as error:
            # The server asks a worker again, and again.
            raise ApplicationError(str(error), type=error.code) from error
        finally:
            if self._stops.get(key) is stop:
                del self._stops[key]

    async def _perform(self, args: AttemptArgs, stop: StopRequest) -> AttemptDone:
        work = asyncio.create_task(self._attempts.perform(args.order, Fence(args.generation), stop))
        while True:
            try:
                return AttemptDone(args.run_id, await asyncio.shield(work))
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
    async def abandon(self, args: AttemptArgs) -> AttemptDone:
        """End what is left of an attempt that no worker carries out any more."""
        stop = StopRequest()
        stop.ask(force=True)
        try:
            return AttemptDone(
                args.run_id, await self._attempts.perform(args.order, Fence(args.generation), stop)
            )
        except PodiumError as error:
            raise ApplicationError(str(error), type=error.code) from error

    @activity.defn(name="podium.kill")
    async def kill(self, order: KillOrder) -> None:
        """Without a time in which it can end by itself, also if another process of this host carries it out."""
        stop = self._stops.get((order.run_id, order.path, order.attempt))
        if stop is not None:
            stop.ask(force=True)
        else:
            await self._attempts.kill(order.run_id, order.path, order.attempt)


@contextlib.asynccontextmanager
async def _beating() -> AsyncIterator[None]:
    """Heartbeats, by which the server knows that this worker lives, and this worker that a stop is asked for."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            activity.heartbeat()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
