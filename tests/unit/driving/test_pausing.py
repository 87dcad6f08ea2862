"""After RunPaused nothing starts, whatever waits for a slot."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from podium.log.events import EventRecord, EventType
from podium.machine.commands import RunTask
from tests.unit.driving.scripted import Scripted, memory, signal
from tests.unit.machine.hosting import plan_of

WIDE = """
max_parallel: 2
steps:
  - name: P
    parallel:
""" + "".join(f"      - {{name: S{n}, command: [say, x]}}\n" for n in range(8))

SHORT_OF_MONEY = """
max_parallel: 1
budget: {usd: 1}
steps:
  - name: P
    parallel:
      - {name: Dear, prompt: "1", provider: echo}
      - {name: Next, prompt: "1", provider: echo}
      - {name: S1, command: [say, x]}
      - {name: S2, command: [say, x]}
      - {name: S3, command: [say, x]}
"""


def _starts_while_paused(log: list[EventRecord]) -> list[str]:
    paused, found = False, []
    for record in log:
        if record.event_type in (EventType.RUN_PAUSED, EventType.RUN_RESUMED):
            paused = record.event_type == EventType.RUN_PAUSED
        elif paused and record.event_type == EventType.STEP_STARTED:
            found.append(str(record.step_id))
    return found


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await holds():
            await asyncio.sleep(0.01)


@pytest.mark.rule("G15")
def test_tasks_that_wait_for_a_slot_start_after_the_pause_is_over() -> None:
    asyncio.run(_tasks_that_wait_for_a_slot_start_after_the_pause_is_over())


async def _tasks_that_wait_for_a_slot_start_after_the_pause_is_over() -> None:
    run = await Scripted(plan_of(WIDE), memory()).create()

    pausing: list[asyncio.Future[object]] = []

    def pause(task: RunTask) -> None:
        if task.path == "P/S1":
            pausing.append(
                asyncio.ensure_future(run.store.append(run.run_id, [signal(run.identity, "PAUSE")]))
            )

    run.tasks.on_start = pause
    driving = asyncio.create_task(run.drive())

    async def is_paused() -> bool:
        return any(record.event_type == EventType.RUN_PAUSED for record in await run.log())

    await _until(is_paused)
    # Several looks at the log, and everything that runs ends.
    await asyncio.sleep(0.3)
    assert _starts_while_paused(await run.log()) == []
    begun = len(run.tasks.begun)
    assert begun < 8
    await run.store.append(run.run_id, [signal(run.identity, "RESUME")])
    assert (await driving).event_type == EventType.RUN_COMPLETED
    assert len(run.tasks.begun) == 8
    assert _starts_while_paused(await run.log()) == []


def test_a_process_that_takes_over_a_paused_run_starts_nothing_in_it() -> None:
    asyncio.run(_a_process_that_takes_over_a_paused_run_starts_nothing_in_it())


async def _a_process_that_takes_over_a_paused_run_starts_nothing_in_it() -> None:
    run = await Scripted(
        plan_of("steps: [{name: A, command: [hang]}, {name: B, command: [say, x]}]"), memory()
    ).create()
    first = asyncio.create_task(run.drive())

    async def has_started() -> bool:
        return bool(run.tasks.begun)

    await _until(has_started)
    await run.store.append(run.run_id, [signal(run.identity, "PAUSE")])

    async def is_paused() -> bool:
        return any(record.event_type == EventType.RUN_PAUSED for record in await run.log())

    await _until(is_paused)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    again = Scripted(run.plan, run.store)
    second = asyncio.create_task(again.drive())
    await asyncio.sleep(0.3)
    assert again.tasks.begun == []
    await run.store.append(run.run_id, [signal(run.identity, "CANCEL")])
    assert (await second).event_type == EventType.RUN_CANCELLED


@pytest.mark.rule("G15")
def test_a_run_that_is_out_of_budget_starts_nothing_that_waits_for_a_slot() -> None:
    asyncio.run(_a_run_that_is_out_of_budget_starts_nothing_that_waits_for_a_slot())


async def _a_run_that_is_out_of_budget_starts_nothing_that_waits_for_a_slot() -> None:
    run = await Scripted(plan_of(SHORT_OF_MONEY), memory()).create()
    driving = asyncio.create_task(run.drive())

    async def is_paused() -> bool:
        return any(record.event_type == EventType.RUN_PAUSED for record in await run.log())

    await _until(is_paused)
    await asyncio.sleep(0.2)
    assert _starts_while_paused(await run.log()) == []
    await run.store.append(run.run_id, [signal(run.identity, "CANCEL")])
    await driving
