"""`Run.signal` and its short forms, for programs: what they return, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import podium
from podium import Podium, Run

FAILS = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["false"]}]\n'
COUNTS = """
version: "2.0"
name: w
steps:
  - {name: A, command: [sh, -c, "echo x >> count; sleep 0.5"]}
  - {name: B, command: [echo, b]}
"""


def carried_out(work: Callable[[Podium], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with podium.open("runs/podium.db") as p:
            await work(p)

    asyncio.run(opened())


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def ended(p: Podium, text: str) -> Run:
    run = await p.start(podium.Workflow.parse(text))
    await run.wait()
    return run


@pytest.mark.rule("G23")
def test_a_run_that_is_retried_twice_with_one_id_is_retried_once_and_driven() -> None:
    async def work(p: Podium) -> None:
        run = await ended(p, FAILS)
        first = await run.signal("RETRY_RUN", signal_id="again")
        second = await run.signal("RETRY_RUN", signal_id="again")
        assert (first.duplicate, second.duplicate) == (False, True)
        assert first.new_run_id == second.new_run_id
        assert first.new_run_id is not None
        assert (await (await p.get(first.new_run_id)).wait()).status == "failed"

    carried_out(work)


@pytest.mark.rule("G23")
def test_a_reason_is_given_once() -> None:
    async def work(p: Podium) -> None:
        run = await ended(p, FAILS)
        with pytest.raises(podium.InvalidInput, match="another `reason`"):
            await run.signal("PAUSE", {"reason": "one"}, reason="two")
        with pytest.raises(podium.PodiumError) as refusal:
            await run.signal("PAUSE", {"reason": "one"}, reason="one")
        assert refusal.value.code == "RUN_TERMINAL"

    carried_out(work)


@pytest.mark.rule("G23")
def test_an_unknown_signal_is_refused_with_its_code() -> None:
    async def work(p: Podium) -> None:
        run = await ended(p, FAILS)
        with pytest.raises(podium.PodiumError) as refusal:
            await run.signal("DANCE")
        assert refusal.value.code == "SIGNAL_INVALID_PAYLOAD"

    carried_out(work)


def test_a_step_that_completed_is_repeated_only_by_force(tmp_path: Path) -> None:
    async def work(p: Podium) -> None:
        run = await p.start(podium.Workflow.parse(COUNTS))
        async for event in run.events():
            if event.type == "StepStarted":
                await run.pause()
            if event.type == "StepCompleted":
                break
        while await run.status() != "PAUSED":
            await asyncio.sleep(0.02)
        with pytest.raises(podium.PodiumError) as refusal:
            await run.retry_step("A")
        assert refusal.value.code == "STEP_TERMINAL"
        await run.retry_step("A", force=True)
        await run.resume()
        assert (await run.wait()).ok

    carried_out(work)
    assert (tmp_path / "count").read_text() == "x\nx\n"
