"""Several people decide about one run at the same time while its processes come and go: one decision counts.

Whatever the order, a run starts only after exactly one approval of its plan, a rejected or cancelled one never does,
and its step runs at most once.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from podium.errors import PodiumError
from podium.log.events import EventRecord
from podium.log.ids import DEFAULT_TENANT, RunId
from podium.log.transitions import TERMINAL
from podium.operations.cancel import cancel_run
from podium.operations.drive import ReadyRun, Watch, drive
from podium.operations.parts import Parts
from podium.operations.resume import resume_run
from podium.operations.signals import signal_run
from podium.operations.start import start_run
from podium.operations.workflows import require_workflow
from podium.ports.engine import RunRequest
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

SEEDS = range(int(os.environ.get("PODIUM_TORTURE_SEEDS", "12")))
WORKFLOW = b"""version: "2.0"
name: release
approval: required
steps: [{name: A, idempotent: false, on_doubt: fail, command: [sh, -c, "echo a >> story"]}]
"""
# What operators may be refused with; anything else is a defect.
REFUSALS = {"APPROVAL_DECIDED", "APPROVAL_PLAN_MISMATCH", "RUN_TERMINAL", "RUN_LOCKED", "RUN_NOT_APPROVED"}
REFUSALS |= {"SIGNAL_IGNORED", "SIGNAL_RATE_LIMITED", "RUN_COMPLETED", "STALE_FENCE", "LOG_MOVED"}


class Operators:
    """Those who decide about one run, and the processes that wait with it."""

    def __init__(self, parts: Parts, run_id: RunId, dice: random.Random) -> None:
        self.parts = parts
        self.run_id = run_id
        self.dice = dice
        self.codes: list[str] = []

    async def act(self) -> None:
        actions: list[Callable[[], Awaitable[object]]] = [
            self.approve,
            self.approve,
            self.approve_another,
            self.reject,
            self.cancel,
            self.drive_for_a_while,
            self.drive_for_a_while,
        ]
        await asyncio.sleep(self.dice.random() * 0.2)
        try:
            await self.dice.choice(actions)()
        except PodiumError as refusal:
            self.codes.append(refusal.code)

    async def approve(self) -> None:
        run = await self.parts.store.get_run(self.run_id)
        await signal_run(self.parts, DEFAULT_TENANT, self.run_id, "APPROVE", planSha256=run.plan_sha256)

    async def approve_another(self) -> None:
        await signal_run(self.parts, DEFAULT_TENANT, self.run_id, "APPROVE", planSha256="0" * 64)

    async def reject(self) -> None:
        await signal_run(self.parts, DEFAULT_TENANT, self.run_id, "REJECT", reason="no")

    async def cancel(self) -> None:
        asked = await cancel_run(self.parts, DEFAULT_TENANT, self.run_id)
        if asked.ready is not None:
            await drive(self.parts, asked.ready, Watch())

    async def drive_for_a_while(self) -> None:
        """A process that is gone after some time, whatever it does."""
        if (await self.parts.store.get_run(self.run_id)).status in TERMINAL:
            return
        driving = asyncio.create_task(drive(self.parts, ReadyRun(self.run_id), Watch()))
        await asyncio.wait({driving}, timeout=self.dice.random() * 0.5)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)

    async def settle(self) -> None:
        """In the end, the run is approved if it still waits, and resumed until it has ended."""
        if (await self.parts.store.get_run(self.run_id)).waits_for_approval:
            try:
                await self.approve()
            except PodiumError as refusal:
                self.codes.append(refusal.code)
        while (await self.parts.store.get_run(self.run_id)).status not in TERMINAL:
            await drive(self.parts, await resume_run(self.parts, "default", self.run_id), Watch())


@pytest.mark.rule("G11")
@pytest.mark.parametrize("seed", SEEDS)
def test_one_decision_counts_whatever_happens_at_the_same_time(seed: int, tmp_path: Path) -> None:
    log, codes = asyncio.run(decided(seed, tmp_path))
    types = [record.event_type for record in log]
    assert set(codes) <= REFUSALS, codes
    assert types.count("RunApproved") <= 1
    assert types.count("RunStarted") <= types.count("RunApproved")
    story = tmp_path / "story"
    ran = len(story.read_text().splitlines()) if story.exists() else 0
    if "RunApproved" not in types:
        assert ("RunStarted" in types, ran) == (False, 0)
        assert types[-1] in ("RunFailed", "RunCancelled", "SignalRejected")
    else:
        assert ran <= 1
        approved, started = (payload_of(log, one) for one in ("RunApproved", "RunStarted"))
        assert not started or started["planSha256"] == approved["planSha256"]
        if "RunStarted" in types:
            assert types.index("RunApproved") < types.index("RunStarted")


def payload_of(log: list[EventRecord], event_type: str) -> dict[str, object]:
    for record in log:
        if record.event_type == event_type:
            found: dict[str, object] = msgspec.json.decode(record.payload)
            return found
    return {}


async def decided(seed: int, folder: Path) -> tuple[list[EventRecord], list[str]]:
    dice = random.Random(seed)
    store = await open_store(str(folder / "podium.db"), create=True)
    try:
        parts = use_case_parts(store, folder / "runs", lambda _text: None)
        plan = require_workflow(WORKFLOW, "w.yaml").plan
        assert plan is not None
        request = RunRequest(plan, {}, f"r-{os.getpid()}-{seed}", WORKFLOW, folder)
        operators = Operators(parts, (await start_run(parts, request)).run_id, dice)
        async with asyncio.timeout(120):
            await asyncio.gather(*(operators.act() for _ in range(dice.randint(2, 7))))
            await operators.settle()
        return await store.read(operators.run_id), operators.codes
    finally:
        await store.close()
