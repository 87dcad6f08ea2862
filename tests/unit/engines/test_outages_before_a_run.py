"""A store that goes away while a run is created, claimed or opened, or waits for a slot, is waited for."""

import asyncio
import functools
import inspect
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from podium.engines.local import LocalEngine
from podium.errors import StoreUnavailable
from podium.log.ids import RunId
from podium.operations.workflows import load_workflow
from podium.ports.engine import Notice, RunRequest
from podium.runtime.outages import leaving
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from tests.unit.driving.scripted import WallClock

KEY = "concurrency: {{key: k, limit: 1, on_conflict: {}}}\n"
STEPS = "steps: [{name: A, set: {x: 1}}, {name: B, set: {y: 2}}]"
FAILING = "steps: [{name: A, set: {x: 1}, on: {success: {error: no}}}]"


class AwayFromACall(MemoryStore):
    """Not available from one of its calls on, for some time. `does_act`: that call is carried out, but not answered."""

    def __init__(self, *, does_act: bool = False) -> None:
        super().__init__(WallClock())
        self._does_act = does_act
        self._left: int | None = None
        self._seconds = 0.0
        self.until = 0.0

    def go_away(self, call: int, seconds: float) -> None:
        """`call`: 0 is the next one."""
        self._left, self._seconds = call, seconds

    def come_back(self) -> bool:
        """Whether it was away."""
        self._left, was_away, self.until = None, self.until > 0, 0.0
        return was_away

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not inspect.iscoroutinefunction(found):
            return found

        @functools.wraps(found)
        async def call(*args: Any, **options: Any) -> Any:
            is_first = self._left == 0
            if self._left is not None:
                self._left = None if is_first else self._left - 1
            if is_first:
                self.until = asyncio.get_running_loop().time() + self._seconds
                if self._does_act:
                    await found(*args, **options)
            if asyncio.get_running_loop().time() < self.until:
                raise StoreUnavailable("connection refused")
            return await found(*args, **options)

        return call


class Site:
    def __init__(self, folder: Path, *, does_act: bool = False) -> None:
        self.store = AwayFromACall(does_act=does_act)
        self.engine = LocalEngine(
            self.store, WallClock(), folder / "runs", outage=timedelta(seconds=300), lease=timedelta(hours=1)
        )
        self.notices: list[Notice] = []

    async def create(self, run_id: str, head: str = "", steps: str = STEPS) -> RunId:
        source = f'version: "2.0"\nname: w\n{head}{steps}'.encode()
        plan = load_workflow(source, "w.yaml", workspace=Path()).plan
        assert plan is not None
        request = RunRequest(plan, run_id=run_id, source=source)
        return await self.engine.create(request, notify=self.notices.append)

    async def drive(self, run_id: RunId) -> str:
        return (await self.engine.drive(run_id, notify=self.notices.append)).event_type


@pytest.mark.rule("OP01")
@pytest.mark.parametrize("does_act", [False, True])
def test_a_run_completes_whichever_call_of_its_driver_the_store_does_not_answer(
    tmp_path: Path, *, does_act: bool
) -> None:
    async def drive_with_outage(call: int) -> bool:
        site = Site(tmp_path / str(call), does_act=does_act)
        run_id = await site.create("r1")
        site.store.go_away(call, 20)
        assert await site.drive(run_id) == "RunCompleted", call
        return site.store.until > 0

    calls = 0
    while run_virtually(drive_with_outage(calls)):
        calls += 1
    assert calls > 10


@pytest.mark.rule("OP01")
@pytest.mark.parametrize("does_act", [False, True])
def test_a_run_is_reopened_once_whichever_call_the_store_does_not_answer(
    tmp_path: Path, *, does_act: bool
) -> None:
    async def reopen_with_outage(call: int) -> bool:
        site = Site(tmp_path / str(call), does_act=does_act)
        run_id = await site.create("r1", steps=FAILING)
        assert await site.drive(run_id) == "RunFailed"
        end = (await site.store.get_run(run_id)).head
        site.store.go_away(call, 20)
        assert (await site.engine.drive(run_id, reopen=end)).event_type == "RunFailed"
        was_away = site.store.come_back()
        recorded = [record.event_type for record in await site.store.read(run_id)]
        assert (recorded.count("RunReopened"), recorded.count("RunFailed")) == (1, 2), call
        return was_away

    calls = 0
    while run_virtually(reopen_with_outage(calls)):
        calls += 1
    assert calls > 10


@pytest.mark.rule("OP01", "OP04")
@pytest.mark.parametrize("does_act", [False, True])
def test_a_run_in_line_keeps_waiting_whichever_call_the_store_does_not_answer(
    tmp_path: Path, *, does_act: bool
) -> None:
    async def wait_with_outage(call: int) -> int:
        site = Site(tmp_path / str(call), does_act=does_act)
        first, second = [await site.create(name, KEY.format("queue")) for name in ("r1", "r2")]
        slot = await site.store.claim(first, owner="elsewhere", ttl=timedelta(hours=1), slots=1)
        assert slot is not None
        waiting = asyncio.create_task(site.drive(second))
        await asyncio.sleep(1)
        site.store.go_away(call, 20)
        await asyncio.sleep(60)
        assert not waiting.done(), call
        await site.store.release(slot)
        assert await waiting == "RunCompleted"
        said = [notice.text for notice in site.notices]
        assert any(text.startswith("store unavailable since") for text in said), call
        return len(said)

    for call in range(4):
        assert run_virtually(wait_with_outage(call))


@pytest.mark.rule("OP06")
@pytest.mark.parametrize("does_act", [False, True])
def test_the_oldest_run_is_cancelled_once_although_the_store_does_not_answer(
    tmp_path: Path, *, does_act: bool
) -> None:
    async def cancels_with_outage(call: int) -> int:
        site = Site(tmp_path / str(call), does_act=does_act)
        first, second = [await site.create(name, KEY.format("cancel")) for name in ("r1", "r2")]
        slot = await site.store.claim(first, owner="elsewhere", ttl=timedelta(hours=1), slots=1)
        assert slot is not None
        site.store.go_away(call, 20)
        waiting = asyncio.create_task(site.drive(second))
        await asyncio.sleep(60)
        await site.store.release(slot)
        assert await waiting == "RunCompleted"
        return [record.event_type for record in await site.store.read(first)].count("SignalAccepted")

    assert [run_virtually(cancels_with_outage(call)) for call in range(14)] == [1] * 14


@pytest.mark.rule("OP01")
def test_a_person_can_leave_a_run_that_is_not_driven_yet(tmp_path: Path) -> None:
    async def leave_while(site: Site, call: int, *, creating: bool) -> str:
        with leaving() as leave:
            run_id = RunId("r1") if creating else await site.create("r1")
            site.store.go_away(call, 1e9)
            work = asyncio.create_task(site.create("r1") if creating else site.drive(run_id))
            await asyncio.sleep(20)
            assert not work.done()
            leave()
            with pytest.raises(StoreUnavailable) as error:
                await work
            assert asyncio.get_running_loop().time() < 30
        return str(error.value)

    said = run_virtually(leave_while(Site(tmp_path / "new"), 1, creating=True))
    assert "It is not known whether run 'r1' was created" in said
    said = run_virtually(leave_while(Site(tmp_path / "old"), 3, creating=False))
    assert "Run 'r1' has stopped; what is recorded is kept" in said
