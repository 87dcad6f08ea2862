"""A worker opens a run that waits for an approval of its plan: nothing starts, and no nudge is lost."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from podium.engines.creation import create_run
from podium.engines.parts import LocalParts
from podium.engines.temporal.messages import RunArgs
from podium.engines.temporal.opening import ExecutionOpening
from podium.log.engines import TemporalRunRef
from podium.log.events import EventRecord, EventType, encode_payload
from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.runs import Run
from podium.machine.following import signal_wake_up
from podium.operations.workflows import require_workflow
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.ports.store import Contents
from podium.runtime.writing import new_event
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.wiring.engines import local_engine

R1 = RunId("r1")
ENGINE = TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=R1, task_queue="q")
LATE = "2999-01-01T00:00:00.000000Z"
WORKFLOW = b'version: "2.0"\nname: w\napproval: required\nsteps: [{name: A, command: ls}]\n'


class Waiting:
    """A run of Temporal that waits for its approval, and a worker."""

    def __init__(self, folder: Path) -> None:
        plan = require_workflow(WORKFLOW, "w.yaml").plan
        assert plan is not None
        self.plan: Plan = plan
        self.store = MemoryStore(VirtualClock())
        self.parts: LocalParts = local_engine(self.store, VirtualClock(), folder)._parts  # type: ignore[attr-defined]
        self.opening = ExecutionOpening(self.parts, self._plan_of)

    async def _plan_of(self, _run: Run, _contents: Contents) -> Plan:
        return self.plan

    async def create(self) -> None:
        await create_run(
            self.parts, RunRequest(self.plan, {}, "r1", workspace=self.parts.runs, engine=ENGINE)
        )

    async def open(self) -> Any:
        return await self.opening.open(RunArgs("r1", "q"), "podium-r1")

    async def send(self, signal_type: str, signal_id: str, then: dict[str, dict[str, Any]]) -> None:
        run = await self.store.get_run(R1)
        body = {"signalId": signal_id, "signalType": signal_type, "payload": {}, "by": "ada"}
        at = self.parts.now()
        accepted = new_event(
            run.identity, EventType.SIGNAL_ACCEPTED, at, encode_payload(body), subject=signal_id
        )
        more = [new_event(run.identity, one, at, encode_payload(said)) for one, said in then.items()]
        wake_up = WakeUp(run_id=R1, key=signal_wake_up(signal_id), due=at)
        await self.store.append(R1, [accepted, *more], set_wake_ups=[wake_up])

    async def approve(self) -> None:
        approved = {"planSha256": sha256(plan_bytes(self.plan)).hexdigest()}
        await self.send("APPROVE", "s-approve", {EventType.RUN_APPROVED: approved})

    async def wake_ups(self) -> list[str]:
        return [one.key for one in await self.store.due(LATE)]

    async def types(self) -> list[str]:
        return [record.event_type for record in await self.store.read(R1)]


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


@pytest.mark.rule("G11")
def test_a_run_without_its_approval_takes_no_lease_and_is_not_started(waiting: Waiting) -> None:
    async def scenario() -> None:
        await waiting.create()
        await waiting.send("PAUSE", "s-pause", {})
        opened = await waiting.open()
        assert (opened.waits_for_approval, opened.start) == (True, None)
        assert await waiting.store.held_lease(R1) is None
        assert await waiting.wake_ups() == []
        await waiting.approve()
        opened = await waiting.open()
        assert (opened.waits_for_approval, await waiting.wake_ups()) == (False, [])
        assert opened.start["planSha256"] == sha256(plan_bytes(waiting.plan)).hexdigest()

    asyncio.run(scenario())


@pytest.mark.rule("G11", "G42")
def test_the_nudge_for_an_approval_that_comes_while_the_run_is_opened_is_not_lost(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, is_first = waiting.store.read, [True]

    async def read_late(run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        if is_first.pop() if is_first else False:
            await waiting.approve()
        return await read(run_id, after=after, limit=limit)

    async def scenario() -> None:
        await waiting.create()
        monkeypatch.setattr(waiting.store, "read", read_late)
        opened = await waiting.open()
        assert not opened.waits_for_approval or await waiting.wake_ups() == [signal_wake_up("s-approve")]

    asyncio.run(scenario())


@pytest.mark.rule("G11")
def test_a_run_that_was_rejected_is_ended_by_the_worker(waiting: Waiting) -> None:
    async def scenario() -> None:
        await waiting.create()
        await waiting.send("REJECT", "s-reject", {})
        opened = await waiting.open()
        assert opened.is_over
        assert await waiting.types() == ["RunQueued", "SignalAccepted", "RunFailed"]
        assert b'"REJECTED"' in (await waiting.store.read(R1))[-1].payload

    asyncio.run(scenario())


@pytest.mark.rule("G11")
def test_a_run_that_was_cancelled_is_opened_to_be_ended(waiting: Waiting) -> None:
    async def scenario() -> None:
        await waiting.create()
        await waiting.send("CANCEL", "s-cancel", {})
        opened = await waiting.open()
        assert (opened.waits_for_approval, opened.is_over, opened.start) == (False, False, None)

    asyncio.run(scenario())
