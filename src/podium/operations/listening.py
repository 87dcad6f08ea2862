"""Starts a run for every message of a topic, until stopped.

A message is committed only after its run is durable. So if anything is killed in between, the message is
delivered again, finds its run, and is then committed. Runs are driven in this process, or by the workers of
another engine; as many messages are taken as there are slots, and the rest stays on the bus. Runs that a
listener of the group left behind are resumed.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from podium.engines.creation import RunExists
from podium.errors import InvalidEvent, InvalidId, PodiumError, RunNotFound, StoreUnavailable
from podium.expressions.evaluate import EvaluationError
from podium.log.engines import LOCAL
from podium.log.ids import RunId
from podium.log.runs import Run, RunQuery
from podium.log.transitions import OPEN
from podium.operations.drive import ReadyRun, Watch, drive
from podium.operations.driving import open_driver
from podium.operations.event_requests import Poison, request_for, was_started_by
from podium.operations.inputs import InvalidInput
from podium.operations.parts import Parts
from podium.operations.receipts import Receipts
from podium.operations.start import start_run
from podium.plan.canonical import NotCanonical, canonical_sha256
from podium.ports.bus import BusUnavailable
from podium.ports.engine import RunRequest
from podium.ports.events_in import EventSource, Incoming
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.lock import RunLocked
from podium.text import typed_reason

MAX_BATCH: Final = 100
MAX_TRIES: Final = 10
_PAUSE_SECONDS: Final = 1.0
_RECOVERY_SECONDS: Final = 10.0
# Errors that a retry cannot fix.
_POISON: Final = (InvalidEvent, InvalidId, EvaluationError, NotCanonical)
# Not caused by the message: retried without a limit.
_AWAY: Final = (StoreUnavailable, BusUnavailable)


class ListenerView:
    """Shows what a listener does. The default does nothing."""

    def ready(self) -> None: ...

    def started(self, run_id: RunId, message: Incoming) -> None: ...

    def ended(self, run_id: RunId, event_type: str) -> None: ...

    def buried(self, message: Incoming, code: str) -> None: ...

    def trouble(self, reason: str) -> None: ...


class Listener:
    """One member of a group."""

    def __init__(
        self,
        parts: Parts,
        source: EventSource,
        template: RunRequest,
        *,
        group: str,
        slots: int,
        view: ListenerView | None = None,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._parts = parts
        self._source = source
        self._template = template
        self._group = group
        self._slots = slots
        self._view = view or ListenerView()
        self._receipts = Receipts(telemetry, parts.clock)
        self._driving: dict[RunId, asyncio.Task[None]] = {}
        self._tries: dict[tuple[int, int], int] = {}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def listen(self, *, drain: float) -> None:
        """Runs until stopped; then runs in progress get `drain` seconds, and unfinished ones are resumed
        later.

        Raises what `EventSource.open` raises, and what is missing for a run.
        """
        await self._parts.require("run.start", self._template.tenant_id, records=False)
        await self._parts.require_needs(self._template.plan, self._template.workspace)
        try:
            await self._source.open()
            self._view.ready()
            recovering = asyncio.create_task(self._recover())
            try:
                await self._take_messages()
            finally:
                recovering.cancel()
                await asyncio.gather(recovering, return_exceptions=True)
                await self._drain(drain)
        finally:
            await self._source.close()

    # --- messages ---------------------------------------------------------------------------------

    async def _take_messages(self) -> None:
        while not self._stopping.is_set():
            free = self._slots - len(self._driving)
            if free <= 0:
                await self._until_one_ends()
                continue
            try:
                messages = await self._source.receive(min(free, MAX_BATCH))
            except PodiumError as error:
                await self._wait_after(error)
                continue
            if messages:
                self._receipts.received(messages)
                await self._take(messages)

    async def _take(self, messages: Sequence[Incoming]) -> None:
        """Returns when each has its run or is a dead letter; only then can the group commit them."""
        left = list(messages)
        while left and not self._stopping.is_set():
            outcomes = await asyncio.gather(*map(self._start, left), return_exceptions=True)
            left = [message for message, outcome in zip(left, outcomes, strict=True) if outcome is not None]
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    await self._wait_after(outcome)
                    break
        if left:
            return
        try:
            await self._source.commit(messages)
        except PodiumError as error:
            # They are delivered again, and find their runs.
            self._view.trouble(str(error))

    async def _start(self, message: Incoming) -> None:
        """Raises errors that may be gone at the next try."""
        try:
            request = request_for(message, self._template, self._group)
        except (Poison, InvalidInput) as poison:
            await self._bury(message, poison.code)
            return
        try:
            ready = await start_run(self._parts, request)
        except _POISON as error:
            await self._bury(message, error.code)
        except RunExists:
            if await self._is_known(message, request):
                self._receipts.has_run(message, str(request.run_id), str(request.run_id), is_new=False)
        except _AWAY:
            raise
        except Exception as error:
            await self._count(message, error)
        else:
            self._view.started(ready.run_id, message)
            self._receipts.has_run(message, ready.run_id, ready.run_id, is_new=True)
            await self._hand_over(ready)

    async def _is_known(self, message: Incoming, request: RunRequest) -> bool:
        """Whether it was delivered before. If its run is open, `_recover` finds it; another message with its
        id is poison.
        """
        with suppress(RunNotFound):  # it has ended, and was pruned
            run = await self._parts.store.get_run(RunId(str(request.run_id)))
            if run.inputs_sha256 != canonical_sha256(request.inputs):
                await self._bury(message, "EVENT_ID_REUSED")
                return False
        return True

    async def _count(self, message: Incoming, error: Exception) -> None:
        """No message is retried forever, whatever the error."""
        place = (message.partition, message.offset)
        self._tries[place] = self._tries.get(place, 0) + 1
        if self._tries[place] < MAX_TRIES:
            raise error
        del self._tries[place]
        await self._bury(message, error.code if isinstance(error, PodiumError) else "INTERNAL_ERROR")

    async def _bury(self, message: Incoming, code: str) -> None:
        await self._source.bury(message, code)
        self._view.buried(message, code)
        self._receipts.is_dead(message, code)

    async def _wait_after(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error
        self._view.trouble(str(error) if isinstance(error, PodiumError) else typed_reason(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), _PAUSE_SECONDS)

    # --- runs -------------------------------------------------------------------------------------

    async def _hand_over(self, ready: ReadyRun) -> None:
        if not await self._parts.engine().begin(ready.run_id):
            self._keep(ready.run_id, self._drive(ready))

    def _keep(self, run_id: RunId, work: Coroutine[Any, Any, None]) -> None:
        self._driving[run_id] = task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._driving.pop(run_id, None))

    async def _drive(self, ready: ReadyRun) -> None:
        try:
            ended = await drive(self._parts, ready, Watch(no_wait=True))
        except RunLocked:
            return  # another listener has it
        except Exception as error:
            self._view.trouble(f"run {ready.run_id!r}: {typed_reason(error)}")
        else:
            self._view.ended(ready.run_id, ended.event_type)

    async def _until_one_ends(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({stopping, *self._driving.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _recover(self) -> None:
        """Resume runs of the group that no live process drives: their process was killed, or a person has
        acted.
        """
        while True:
            try:
                async with asyncio.timeout(_RECOVERY_SECONDS * 10):
                    await self._resume_left_behind()
            except (PodiumError, TimeoutError) as error:
                self._view.trouble(str(error))
            await asyncio.sleep(_RECOVERY_SECONDS)

    async def _resume_left_behind(self) -> None:
        plan_id, tenant_id = self._template.plan.metadata.plan_id, self._template.tenant_id
        cursor = None
        while True:
            query = RunQuery(plan_id=plan_id, statuses=OPEN, cursor=cursor)
            page = await self._parts.store.runs.page(tenant_id, query)
            for run in page.runs:
                if len(self._driving) >= self._slots:
                    return
                if await self._is_left_behind(run):
                    run_id = run.identity.run_id
                    self._keep(run_id, self._drive(ReadyRun(run_id, was_open=True)))
            cursor = page.cursor
            if cursor is None:
                return

    async def _is_left_behind(self, run: Run) -> bool:
        if run.identity.run_id in self._driving or run.provider != LOCAL or run.waits_for_approval:
            return False
        if not was_started_by(run, self._group):
            return False
        driver = await open_driver(self._parts.store, run)
        return driver is None or not driver.is_alive

    async def _drain(self, seconds: float) -> None:
        if self._driving:
            await asyncio.wait(self._driving.values(), timeout=seconds)
        for task in list(self._driving.values()):
            task.cancel()
        await asyncio.gather(*self._driving.values(), return_exceptions=True)
