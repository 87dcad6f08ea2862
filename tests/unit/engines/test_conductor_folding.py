"""What a worker of Conductor knows of a run that another worker decides about: what its log says is owed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from podium.engines.conductor import folding
from podium.engines.conductor.folding import FoldedRun, FoldedRuns
from podium.engines.hosting import prepare_for_worker
from podium.errors import StoreUnavailable
from podium.log.drafts import EventDraft
from podium.log.engines import ConductorRunRef
from podium.machine.commands import CancelTask, RunTask
from podium.runtime.hosted_runs import HostedRuns
from tests.unit.runtime.working import Worked, started_run
from tests.unit.tasks.engine import sh

PATIENCE = 60.0


class Log:
    """Of a started run with one step A, which others write to."""

    def __init__(self, run: Worked) -> None:
        self.run = run
        self.runs = FoldedRuns(run.parts, HostedRuns(prepare_for_worker(run.parts)))
        self._worker = run.worker()

    async def append(
        self, event_type: str, path: str | None = None, subject: str | None = None, **payload: Any
    ) -> None:
        draft = EventDraft(event_type, path, 1, payload, subject)
        await self._worker.write(self.run.run_id, self.run.lease.fence, [draft])

    async def cancel(self) -> None:
        signal: dict[str, Any] = {"signalId": "s", "signalType": "CANCEL", "payload": {}}
        await self.append("SignalAccepted", subject="s", **signal)


def with_log(folder: Path, test: Callable[[Log], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with started_run(folder, sh("true"), sh("true", "B")) as run:
            url, run_id = "http://127.0.0.1:8080", run.run_id
            ref = ConductorRunRef(conductor_url=url, workflow_id=f"podium-{run_id}", run_id=run_id)
            await run.store.set_engine(run_id, ref, fence=run.lease.fence)
            await test(Log(run))

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def owed(run: FoldedRun, path: str, attempt: int = 1) -> str:
    found = run.owed(path, attempt)
    if isinstance(found, CancelTask):
        return "stop"
    return "run" if isinstance(found, RunTask) else "nothing"


@pytest.mark.rule("CN11")
def test_only_a_started_attempt_without_an_end_is_owed(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        async with log.runs.use(log.run.run_id) as run:
            assert owed(run, "A") == "nothing"  # it has not started
            await log.append("StepStarted", "A")
            await run.read_on()
            assert owed(run, "A") == "run"
            assert [owed(run, "A", 2), owed(run, "B"), owed(run, "unknown")] == ["nothing"] * 3
            await log.append("StepCompleted", "A", exitCode=0)
            await run.read_on()
            assert owed(run, "A") == "nothing"

    with_log(tmp_path, test)


@pytest.mark.rule("CN11")
def test_a_stop_is_owed_as_soon_as_the_log_has_its_reason_and_listeners_are_called(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        await log.append("StepStarted", "A")
        is_new = asyncio.Event()
        async with log.runs.use(log.run.run_id) as run:
            with run.listening(is_new.set):
                await log.cancel()
                await is_new.wait()
                while owed(run, "A") != "stop":
                    await asyncio.sleep(0.01)

    with_log(tmp_path, test)


@pytest.mark.rule("CN11")
def test_a_run_is_folded_once_and_read_to_the_end_of_its_log_at_each_use(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        async with log.runs.use(log.run.run_id) as first:
            assert owed(first, "A") == "nothing"
        await log.append("StepStarted", "A")
        async with log.runs.use(log.run.run_id) as second:
            assert second is first
            assert owed(second, "A") == "run"

    with_log(tmp_path, test)


@pytest.mark.rule("CN11")
def test_the_log_is_not_followed_when_nothing_listens(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        async with log.runs.use(log.run.run_id) as run:
            with run.listening(lambda: None), run.listening(lambda: None):
                pass
            await asyncio.sleep(0)
            mine = asyncio.current_task()
            assert not [task for task in asyncio.all_tasks() if task is not mine and "_follow" in repr(task)]

    with_log(tmp_path, test)


@pytest.mark.rule("CN11")
def test_a_stop_is_learned_also_after_the_store_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "_AWAY_SECONDS", 0.01, raising=False)

    async def test(log: Log) -> None:
        await log.append("StepStarted", "A")
        store, was_away = type(log.run.store), asyncio.Event()
        watch = store.watch

        async def fail_once(*given: Any, **named: Any) -> AsyncIterator[Any]:
            if not was_away.is_set():
                was_away.set()
                raise StoreUnavailable("away")
            async for records in watch(*given, **named):
                yield records

        monkeypatch.setattr(store, "watch", fail_once)
        is_stopped = asyncio.Event()
        async with log.runs.use(log.run.run_id) as run:
            with run.listening(lambda: is_stopped.set() if owed(run, "A") == "stop" else None):
                await was_away.wait()
                await log.cancel()
                await is_stopped.wait()

    with_log(tmp_path, test)
