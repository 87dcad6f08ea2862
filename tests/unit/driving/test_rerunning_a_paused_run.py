"""A rerun of a run that was paused when its step was about to start: nothing starts before RunResumed."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from podium.log.events import EventRecord, EventType, EventWrite
from podium.log.fold import project
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.machine import RULES_VERSION, Machine
from podium.machine.commands import RunTask
from podium.plan.plan import Plan
from podium.runtime.takeover import Original, Takeovers
from tests.unit.driving.scripted import Scripted, memory, signal
from tests.unit.machine.hosting import plan_of

PARALLEL = """
max_parallel: 1
steps:
  - name: P
    parallel:
      - {name: A, command: [say, x]}
      - {name: G, steps: [{name: B, command: [say, x]}]}
"""
ASKING = """
max_parallel: 1
steps:
  - name: P
    parallel:
      - {name: Ask, approval: {message: "MESSAGE"}}
      - {name: A, command: [hang]}
      - {name: B, command: [say, x]}
"""


async def _until_recorded(run: Scripted, event_type: str, step: str | None = None) -> None:
    async with asyncio.timeout(20):
        while not any((one.event_type, one.step_id) == (event_type, step) for one in await run.log()):
            await asyncio.sleep(0.01)


async def _paused_and_cancelled(plan: Plan) -> Scripted:
    """It is paused while A runs, so that B does not start; and then it is cancelled."""
    run = await Scripted(plan, memory()).create()
    signalled: list[asyncio.Future[object]] = []

    def pause(task: RunTask) -> None:
        if task.path == "P/A":
            paused = run.store.append(run.run_id, [signal(run.identity, "PAUSE")])
            signalled.append(asyncio.ensure_future(paused))

    run.tasks.on_start = pause
    driving = asyncio.create_task(run.drive())
    await _until_recorded(run, EventType.RUN_PAUSED)
    await run.store.append(run.run_id, [signal(run.identity, "CANCEL")])
    assert (await driving).event_type == EventType.RUN_CANCELLED
    return run


async def _taken_over(run: Scripted, plan: Plan, step: str) -> tuple[Scripted, list[EventWrite]]:
    rerun = await Scripted(plan, run.store, RunId("r2")).create()
    takeovers = Takeovers(run.store, plan, "of-the-rerun", rerun.identity, None)
    started = {"rulesVersion": RULES_VERSION, "inputs": {}}
    now = timestamp(datetime.now(UTC))
    takeover = await takeovers.of(Original(run.run_id, "of-the-original", step), started, now)
    return rerun, takeover.writes


def _starts_while_paused(log: list[EventRecord]) -> list[str]:
    paused, found = False, []
    for record in log:
        if record.event_type in (EventType.RUN_PAUSED, EventType.RUN_RESUMED):
            paused = record.event_type == EventType.RUN_PAUSED
        elif paused and record.event_type == EventType.STEP_STARTED:
            found.append(str(record.step_id))
    return found


def _starts(writes: list[EventWrite]) -> list[str | None]:
    return [one.step_id for one in writes if one.event_type == EventType.STEP_STARTED]


@pytest.mark.rule("G15")
def test_a_rerun_of_a_paused_run_starts_nothing_before_it_is_resumed() -> None:
    async def scenario() -> None:
        run = await _paused_and_cancelled(plan_of(PARALLEL))
        rerun, writes = await _taken_over(run, run.plan, "P/G/B")
        assert EventType.RUN_PAUSED in [one.event_type for one in writes], "else this tests nothing"
        lease = await rerun.claim()
        await rerun.store.append(rerun.run_id, writes, fence=lease.fence)
        await rerun.store.release(lease)
        assert (await rerun.drive()).event_type == EventType.RUN_COMPLETED
        log = await rerun.log()
        assert _starts_while_paused(log) == []
        starts = [one.step_id for one in log if one.event_type == EventType.STEP_STARTED]
        assert sorted(map(str, starts)) == ["P", "P/A", "P/G", "P/G/B"], "each of them once"
        _check_views(rerun.plan, log)

    asyncio.run(scenario())


def _check_views(plan: Plan, log: list[EventRecord]) -> None:
    machine = Machine(plan)
    for record in log:
        machine.advance(record)
    assert machine.terminal
    assert not machine.inconsistent
    assert not project(log).summary.inconsistent


def test_a_rerun_takes_over_open_composites_and_approvals_and_starts_open_tasks_again() -> None:
    async def scenario() -> None:
        run = await _paused_and_cancelled(plan_of(ASKING))
        _, writes = await _taken_over(run, run.plan, "P/B")
        assert _starts(writes) == ["P", "P/Ask"], "P/A had not ended"

    asyncio.run(scenario())


def test_an_open_approval_that_is_taken_over_asks_what_the_new_plan_says() -> None:
    async def scenario() -> None:
        run = await _paused_and_cancelled(plan_of(ASKING))
        _, writes = await _taken_over(run, plan_of(ASKING.replace("MESSAGE", "Really?")), "P/B")
        (asked,) = [one for one in writes if one.step_id == "P/Ask"]
        payload: dict[str, Any] = msgspec.json.decode(asked.payload)
        assert payload == {"approval": {"message": "Really?"}, "reusedFrom": "r1"}

    asyncio.run(scenario())
