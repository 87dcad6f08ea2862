"""What the suite needs of an engine, and a simulated person who sends the signals of a scenario."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.transitions import TERMINAL
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.testing.engine_promises.scenarios import ScriptedSignal

_LOOK_SECONDS: Final = 0.01
# Placeholder in the payload of a signal for the SHA-256 of the plan.
THE_PLAN: Final = "THE_PLAN"
Send: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[None]]


class EngineUnderTest(Protocol):
    """An engine that passes when it behaves like the local one."""

    def run(
        self,
        plan: Plan,
        source: bytes,
        inputs: dict[str, Any],
        signals: Sequence[ScriptedSignal],
        workspace: Path,
    ) -> Sequence[EventRecord]:
        """Start a run, send the signals, wait for its end, and return its log from the first event on.

        Steps are executed as usual: real programs, in the workspace. The engine receives the signals only as
        its users could send them. Raises if the run does not end.
        """
        ...


async def take_part(store: Store, run_id: RunId, signals: Sequence[ScriptedSignal], send: Send) -> None:
    """Send each signal when its event is in the log. Ends with the last one, or when the run has ended."""
    after = 0
    for signal in signals:
        found = await _wait_for(store, run_id, signal.after, after)
        if found is None:
            return
        after = found
        plan_sha256 = (await store.get_run(run_id)).plan_sha256
        payload = {
            name: plan_sha256 if value == THE_PLAN else value for name, value in signal.payload.items()
        }
        await send(signal.send, payload)


async def log_of(store: Store, run_id: RunId) -> list[EventRecord]:
    return await store.read(run_id, limit=1_000_000)


async def wait_for_end(store: Store, run_id: RunId) -> None:
    while (await store.get_run(run_id)).status not in TERMINAL:
        await asyncio.sleep(_LOOK_SECONDS)


async def _wait_for(store: Store, run_id: RunId, wanted: str, after: int) -> int | None:
    """The `runSeq` of the event that a signal waits for; None if the run has ended without it."""
    while True:
        is_over = (await store.get_run(run_id)).status in TERMINAL
        for record in await store.read(run_id, after=after, limit=1_000_000):
            if f"{record.event_type} {record.step_id or ''}".strip() == wanted:
                return record.run_seq
        if is_over:
            return None
        await asyncio.sleep(_LOOK_SECONDS)
