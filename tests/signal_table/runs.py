"""Runs of one workflow in every state that a signal can find.

`First` has ended, `Now` is what the state is about, `Later` has not been reached. `Later` prints what can be changed
by signals: a context variable, a variable of its environment, and where it runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.signals import signal_run
from podium.operations.start import start_run
from podium.operations.workflows import load_workflow
from podium.ports.engine import RunRequest
from podium.testing.engine_promises import log_of

_NOW: Final = {
    "waits": "command: [sh, -c, 'until [ -e go-$PODIUM_RUN_ID ]; do sleep 0.2; done']",
    "asks": "approval: {message: May it?}",
    "is held": "command: [sh, -c, 'test -e go-$PODIUM_RUN_ID'], retry: {attempts: 1, operator: 3600}",
    "succeeds": 'command: ["true"]',
    "fails": 'command: ["false"]',
}
_WORKFLOW: Final = """
version: "2.0"
name: table
approval: required
context: {{color: blue}}
steps:
  - {{name: First, command: ["true"]}}
  - {{name: Now, {now}}}
  - {{name: Later, command: [sh, -c, 'echo "${{context.color}} $EXTRA $(basename "$PWD")"'], env: {{EXTRA: plain}}}}
"""
# What `Now` does in a run of this state.
_KIND: Final = {
    "waiting": "succeeds",
    "approved": "succeeds",
    "running": "waits",
    "asking": "asks",
    "held": "is held",
    "paused": "waits",
    "completed": "succeeds",
    "failed": "fails",
    "cancelled": "waits",
}
# What is in the log when the run has come there.
_ARRIVED: Final = {
    "running": "StepStarted Now",
    "asking": "StepStarted Now",
    "held": "StepFailed Now",
    "completed": "RunCompleted",
    "failed": "RunFailed",
}
# For what takes a second on an idle machine.
PATIENCE: Final = 300.0
_LOOK_SECONDS: Final = 0.02


class Runs:
    """Runs on one engine. `parts` are those of an owner; `begin` lets a run that was created start."""

    def __init__(self, parts: Parts, workspace: Path, begin: Callable[[RunId], Awaitable[None]]) -> None:
        self.parts = parts
        self._workspace = workspace
        self._begin = begin
        for folder in (".", "elsewhere"):
            (workspace / folder).mkdir(parents=True, exist_ok=True)

    async def create(self, state: str, tenant: str) -> RunId:
        source = _WORKFLOW.format(now=_NOW[_KIND[state]]).encode()
        reading = load_workflow(source, "table.yaml", workspace=self._workspace)
        assert reading.plan is not None, reading.diagnostics
        run_id = f"{state}-{uuid4().hex[:12]}"
        inputs = check_inputs({}, reading.plan.workflow)
        request = RunRequest(
            reading.plan, inputs, run_id, source=source, workspace=self._workspace, tenant_id=tenant
        )
        return (await start_run(self.parts, request)).run_id

    async def bring(self, state: str, tenant: str) -> RunId:
        """A new run in that state."""
        run_id = await self.create(state, tenant)
        if state == "waiting":
            await self.start(run_id)
            return run_id
        await self.send(run_id, "APPROVE", planSha256=await self.plan_of(run_id))
        if state != "approved":
            await self.start(run_id)
        if state in _ARRIVED:
            await self.wait_for(run_id, _ARRIVED[state])
        if state == "paused":
            await self.wait_for(run_id, "StepStarted Now")
            await self.send(run_id, "PAUSE")
            await self.wait_for(run_id, "RunPaused")
            self.open_gate(run_id)
            await self.wait_for(run_id, "StepCompleted Now")
        if state == "cancelled":
            await self.wait_for(run_id, "StepStarted Now")
            await self.send(run_id, "CANCEL")
            await self.wait_for(run_id, "RunCancelled")
        return run_id

    async def let_go(self, run_id: RunId, state: str) -> None:
        """So that a run which nothing else has moved continues to its end, as if no signal of the table had come."""
        self.open_gate(run_id)
        if state == "waiting" and (await self.parts.store.get_run(run_id)).waits_for_approval:
            await self.send(run_id, "APPROVE", planSha256=await self.plan_of(run_id))
        if state == "approved":
            await self.start(run_id)
        if state == "asking":
            await self.send(run_id, "APPROVE", stepId="Now")
        if state == "held":
            await self.send(run_id, "RETRY_STEP", stepId="Now")
        if state == "paused":
            await self.send(run_id, "RESUME")

    # --- what others do -----------------------------------------------------------------------------

    async def start(self, run_id: RunId) -> None:
        await self._begin(run_id)

    def open_gate(self, run_id: RunId) -> None:
        (self._workspace / f"go-{run_id}").touch()

    async def send(self, run_id: RunId, signal_type: str, **payload: Any) -> None:
        run = await self.parts.store.get_run(run_id)
        await signal_run(self.parts, run.identity.tenant_id, run_id, signal_type, **payload)

    async def plan_of(self, run_id: RunId) -> str:
        sha256 = (await self.parts.store.get_run(run_id)).plan_sha256
        assert sha256 is not None
        return sha256

    # --- what is in the log -------------------------------------------------------------------------

    async def log(self, run_id: RunId) -> list[EventRecord]:
        return await log_of(self.parts.store, run_id)

    async def wait_for(self, run_id: RunId, event: str, text: str = "", attempt: int = 1) -> EventRecord:
        """An event like `StepCompleted Now`, whose payload contains the text; of a step, of that attempt."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := _find(await self.log(run_id), event, text, attempt)) is None:
                    await asyncio.sleep(_LOOK_SECONDS)
                return found
        except TimeoutError:
            shown = [named(one) for one in await self.log(run_id)]
            raise AssertionError(f"{run_id}: no {event} {text!r} in {shown}") from None


def _find(log: list[EventRecord], event: str, text: str, attempt: int) -> EventRecord | None:
    for one in log:
        is_attempt = one.step_id is None or one.logical_attempt_id == attempt
        if named(one) == event and is_attempt and text.encode() in one.payload:
            return one
    return None


def named(record: EventRecord) -> str:
    return f"{record.event_type} {record.step_id or ''}".strip()


def payload_of(record: EventRecord) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(record.payload)
    return decoded
