"""Runs driven to their end by the local engine, in this process: the reference for every other engine."""

import asyncio
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import DEFAULT_TENANT, RunId
from podium.operations.drive import ReadyRun, Watch, drive
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.signals import signal_run
from podium.operations.start import start_run
from podium.plan.plan import Plan
from podium.ports.engine import Engine, RunRequest
from podium.ports.store import Store
from podium.testing.engine_promises.engine import log_of, take_part
from podium.testing.engine_promises.scenarios import ScriptedSignal
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

_SECONDS: Final = 60.0


class LocalRuns:
    """An `EngineUnderTest`; its runs are in the store `store` and the folder `runs`.

    `engine` makes another engine of the same kind (`podium.ports.engine.Engine`) for an opened store.
    """

    def __init__(self, store: str, runs: Path, engine: Callable[[Store], Engine] | None = None) -> None:
        self._store = store
        self._runs = runs
        self._engine = engine

    def run(
        self,
        plan: Plan,
        source: bytes,
        inputs: dict[str, Any],
        signals: Sequence[ScriptedSignal],
        workspace: Path,
    ) -> Sequence[EventRecord]:
        given = check_inputs(inputs, plan.workflow)
        request = RunRequest(plan, given, source=source, workspace=workspace)
        return asyncio.run(self._to_its_end(request, signals))

    async def _to_its_end(
        self, request: RunRequest, signals: Sequence[ScriptedSignal]
    ) -> Sequence[EventRecord]:
        store = await open_store(self._store, create=True)
        try:
            parts = use_case_parts(store, self._runs, print)
            if self._engine is not None:
                parts = msgspec.structs.replace(parts, engine=cache(partial(self._engine, store)))
            ready = await start_run(parts, request)
            async with asyncio.timeout(_SECONDS):
                await asyncio.gather(drive(parts, ready, Watch()), _take_part(parts, ready, signals))
            return await log_of(store, ready.run_id)
        finally:
            await store.close()


async def _take_part(parts: Parts, ready: ReadyRun, signals: Sequence[ScriptedSignal]) -> None:
    async def send(signal_type: str, payload: dict[str, Any]) -> None:
        await signal_run(parts, DEFAULT_TENANT, RunId(ready.run_id), signal_type, **payload)

    await take_part(parts.store, ready.run_id, signals, send)
