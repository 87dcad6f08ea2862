"""One run, for the program that has opened its store."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from podium.api.session import Drive, Session
from podium.log.ids import RunId
from podium.operations.drive import ReadyRun
from podium.operations.explaining import Explanation
from podium.operations.inputs import InvalidInput
from podium.operations.results import Event, Result, events_from
from podium.ports.engine import SignalRequest


@dataclass(frozen=True, slots=True)
class AcceptedSignal:
    """What `Run.signal` returns."""

    signal_id: str
    # It had been accepted before: nothing was done now.
    duplicate: bool
    # RETRY_RUN only: the run that it has created.
    new_run_id: str | None = None


class Run:
    """A run of an opened store. `start`, `resume` and `rerun` give one that is driven here, `get` any other."""

    def __init__(self, session: Session, drive: Drive) -> None:
        self.run_id = str(drive.run_id)
        self._session = session
        self._parts = session.parts
        self._drive = drive

    def __repr__(self) -> str:
        return f"<podium.Run {self.run_id!r}>"

    async def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Its events from the first on, or from `after` on, until it has ended. To stop reading cancels nothing."""
        while True:
            changed, is_over = self._drive.changed, await self._drive.is_over()
            async for event in events_from(self._parts.store, RunId(self.run_id), after):
                after = event.seq
                yield event
            if is_over:
                return
            await self._drive.next_change(changed)

    async def wait(self) -> Result:
        """Wait until it has ended. Cancelling the task that waits for a run driven here cancels the run, as Ctrl-C
        does `podium run`: steps are ended, `finally` runs, and then the task is cancelled. Cancelled twice, the run is
        killed. A run that another process drives is not touched.
        """
        if self._drive.is_here:
            ended = await self._drive.ended()
            return await self._session.result(ended.run_id, ended)
        while not await self._drive.is_over():
            await self._drive.next_change(self._drive.changed)
        return await self._session.result(RunId(self.run_id), None)

    async def why(self) -> Explanation:
        """What it waits for, until when, and what one can do about it; of one that has ended, why it did."""
        from podium.operations.explaining import explain

        return await explain(self._parts, self._session.tenant, self.run_id)

    async def plan_sha256(self) -> str:
        """The SHA-256 of its plan, which an approval of the plan has to name."""
        return (await self._parts.store.get_run(RunId(self.run_id))).plan_sha256

    async def status(self) -> str:
        """PENDING, APPROVED, RUNNING, PAUSED, COMPLETED, FAILED or CANCELLED."""
        return (await self._parts.store.get_run(RunId(self.run_id))).status.value

    async def pause(self, reason: str | None = None) -> None:
        """Running steps finish, no new ones start."""
        await self._signal("PAUSE", reason=reason)

    async def resume(self) -> None:
        """Continue after `pause`. An interrupted run is continued by `Podium.resume`."""
        await self._signal("RESUME")

    async def cancel(self, reason: str | None = None) -> None:
        """Request its end: steps are ended, `finally` runs. `wait` returns when it has ended."""
        from podium.operations.cancel import cancel_run

        asked = await cancel_run(self._parts, self._session.tenant, self.run_id, reason=reason)
        if asked.ready is not None and not self._drive.is_here:
            self._drive.begin(asked.ready)

    async def approve(
        self,
        step: str | None = None,
        *,
        form: Mapping[str, Any] | None = None,
        plan_sha256: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say yes to an approval step, which may be left out if only one waits. `by` is recorded as a claim.

        `plan_sha256`: of a run that waits for the approval of its plan: the plan that is approved.
        """
        answers = dict(form) if form is not None else None
        await self._signal(
            "APPROVE", stepId=step, form=answers, planSha256=plan_sha256, reason=reason, claimedBy=by
        )

    async def reject(
        self,
        step: str | None = None,
        *,
        reason: str | None = None,
        to: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say no to an approval step, or to the plan of a run that waits for its approval: then it never starts.

        `to`: go back to this step instead of failing.
        """
        await self._signal("REJECT", stepId=step, reason=reason, to=to, claimedBy=by)

    async def retry_step(self, step: str, *, force: bool = False) -> None:
        """Start the next attempt of a step now. `force`: also of one that has completed."""
        await self._signal("RETRY_STEP", stepId=step, force=force or None)

    async def skip_step(self, step: str, *, reason: str | None = None) -> None:
        await self._signal("SKIP_STEP", stepId=step, reason=reason)

    async def signal(
        self,
        signal_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        signal_id: str | None = None,
        reason: str | None = None,
    ) -> "AcceptedSignal":
        """Send any signal, as `podium signal` does. Raises the `PodiumError` of a refusal.

        `signal_id`: an id of yours; the same id with the same content is one signal, however often it is sent.
        `reason`: the same as `reason` in the payload. The new run of a RETRY_RUN is driven here.
        """
        from podium.operations.signals import request_signal

        body = dict(payload or {})
        if reason is not None and body.setdefault("reason", reason) != reason:
            raise InvalidInput("the payload has another `reason`; give it once")
        request = SignalRequest(signal_id=signal_id or str(uuid4()), signal_type=signal_type, payload=body)
        sent = await request_signal(self._parts, self._session.tenant, self.run_id, request)
        if sent.new_run is not None and sent.to_drive:
            await self._session.begin(ReadyRun(sent.new_run))
        return AcceptedSignal(sent.signal_id, sent.duplicate, sent.new_run)

    async def _signal(self, signal_type: str, **payload: Any) -> None:
        from podium.operations.signals import signal_run

        await signal_run(self._parts, self._session.tenant, self.run_id, signal_type, **payload)
